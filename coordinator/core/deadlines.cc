#include "coordinator/core/deadlines.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace nightshift {
namespace {

bool HasDeadline(const DeadlineJob& job) {
  return std::isfinite(job.seconds_left) && job.slots > 0 && job.work > 0;
}

double ShareNeeded(const DeadlineJob& job) {
  const double margin = std::min(kMarginMax, kMarginShare * job.window);
  const double left = job.seconds_left - margin;
  return left > 0 ? std::min(1.0, job.work / left / job.slots) : 1;
}

}  // namespace

std::vector<DeadlinePlan> PlanDeadlines(const std::vector<DeadlineJob>& jobs) {
  std::vector<DeadlinePlan> plans(jobs.size());
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_tuple(jobs[a].model_set, -int64_t{jobs[a].priority}, jobs[a].seconds_left) <
           std::make_tuple(jobs[b].model_set, -int64_t{jobs[b].priority}, jobs[b].seconds_left);
  });
  std::map<std::pair<int, int32_t>, double> shares;  // by model set and priority
  double free_at = 0;                                // seconds from now, after those looked at
  for (size_t place = 0; place < order.size(); ++place) {
    const DeadlineJob& job = jobs[order[place]];
    if (place > 0 && jobs[order[place - 1]].model_set != job.model_set) free_at = 0;
    if (job.slots <= 0 || job.work <= 0) continue;
    const double end = free_at + job.work / job.slots;
    if (!HasDeadline(job)) {
      free_at = end;
      continue;
    }
    plans[order[place]].late_seconds = std::max(0.0, end - std::max(0.0, job.seconds_left));
    // Past its deadline it wants nothing more.
    free_at = std::max(free_at, std::min(end, job.seconds_left));
    shares[{job.model_set, job.priority}] += ShareNeeded(job);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!HasDeadline(jobs[i])) continue;
    const bool enough = shares[{jobs[i].model_set, jobs[i].priority}] <= 1;
    plans[i].share = enough ? std::min(1.0, ShareNeeded(jobs[i]) * (1 + kShareSpare)) : 1;
  }
  return plans;
}

}  // namespace nightshift
