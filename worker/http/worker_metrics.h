// What a worker tells Prometheus: each attempt as it ends, and its backends as the last report to
// the coordinator has them. The names are those of the coordinator's metrics, seen from this side:
// an attempt counts here when it has ended, there when it is recorded.
//
// What counts is called by one thread, Render by any. Labels have few values: those of the worker's
// own backends.
#ifndef NIGHTSHIFT_WORKER_HTTP_WORKER_METRICS_H_
#define NIGHTSHIFT_WORKER_HTTP_WORKER_METRICS_H_

#include <memory>
#include <string>

#include "nightshift/v1/worker.pb.h"

namespace nightshift {

class WorkerMetrics {
 public:
  WorkerMetrics();
  ~WorkerMetrics();

  void OnReport(const v1::Report& report);
  void OnResult(const v1::AttemptResult& result);
  void OnConnected(bool connected);

  // The text that a scrape gets.
  std::string Render();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_HTTP_WORKER_METRICS_H_
