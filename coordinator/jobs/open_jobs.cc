#include "coordinator/jobs/open_jobs.h"

#include <algorithm>

namespace nightshift {
namespace {

constexpr absl::Duration kUnknownEnd = absl::Minutes(1);

}  // namespace

OpenJobs CountOpenJobs(const Dispatcher& dispatcher, absl::string_view tenant, MonotonicTime now) {
  OpenJobs open;
  absl::Duration first_end = absl::InfiniteDuration();
  for (const Dispatcher::JobHead& head : dispatcher.ListHeads()) {
    if (head.ended || head.tenant != tenant) continue;
    ++open.count;
    const absl::StatusOr<v1::JobStatus> status = dispatcher.GetStatus(head.job, now);
    if (status.ok() && status->eta_low_seconds() >= 0) {
      first_end = std::min(first_end, absl::Seconds(status->eta_low_seconds()));
    }
  }
  open.first_end = first_end == absl::InfiniteDuration() ? kUnknownEnd : first_end;
  return open;
}

}  // namespace nightshift
