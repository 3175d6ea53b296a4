// What the coordinator tells Prometheus: counters that rise as things happen, gauges that are read
// from the dispatcher when somebody asks.
//
// Thread-safe. Labels have few values: of backends the first kBackendLabelsMax names are told
// apart.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_METRICS_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_METRICS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "coordinator/commit/commit_observer.h"
#include "coordinator/core/dispatcher.h"

namespace nightshift {

// Further backends are counted together, as "other".
inline constexpr int kBackendLabelsMax = 256;

class Metrics final : public CommitObserver {
 public:
  Metrics();
  ~Metrics() override;

  // One round of the committer, durable and applied.
  void OnCommit(absl::Span<const ResultEvent> results, const CommitPlan& plan) override;
  // One commit of the store, whoever made it.
  void OnStoreCommit(absl::Duration took);
  // One lease that was sent.
  void OnLease(int requests);

  // The text that a scrape gets. Looks at every job that has not ended, and every worker.
  std::string Render(const Dispatcher& dispatcher, MonotonicTime now);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_METRICS_H_
