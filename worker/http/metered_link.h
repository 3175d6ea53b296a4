// Counts what passes on its way to the coordinator. Used by the loop's thread.
#ifndef NIGHTSHIFT_WORKER_HTTP_METERED_LINK_H_
#define NIGHTSHIFT_WORKER_HTTP_METERED_LINK_H_

#include <cstdint>

#include "worker/core/runner.h"
#include "worker/http/worker_metrics.h"

namespace nightshift {

class MeteredLink final : public LinkPort {
 public:
  // Both must outlive it.
  MeteredLink(LinkPort& inner, WorkerMetrics& metrics) : inner_(inner), metrics_(metrics) {}

  void Send(v1::WorkerMessage message) override;
  int Backlog() const override { return inner_.Backlog(); }
  void Reopen() override { inner_.Reopen(); }

 private:
  LinkPort& inner_;
  WorkerMetrics& metrics_;
  // Results are numbered, and sent again after a connection was lost: each counts once.
  uint64_t counted_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_HTTP_METERED_LINK_H_
