#include "coordinator/core/fair_share.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace nightshift {
namespace {

// The mean of a job's calls: plain for the first two hundred, then each new one counts so much.
constexpr int64_t kCostCountMax = 200;
// A class that could not use its credit for a while does not flood the backends later.
constexpr double kCreditMax = 64;
// More classes than anyone uses; then it is forgotten who was owed what.
constexpr size_t kClassesMax = 1024;

}  // namespace

std::vector<int64_t> DivideGrant(int64_t count, const std::vector<ShareCandidate>& candidates) {
  std::vector<int64_t> shares(candidates.size(), 0);
  std::vector<size_t> by_deadline(candidates.size());
  std::iota(by_deadline.begin(), by_deadline.end(), size_t{0});
  std::stable_sort(by_deadline.begin(), by_deadline.end(),
                   [&](size_t a, size_t b) { return candidates[a].due < candidates[b].due; });
  for (const size_t i : by_deadline) {
    shares[i] = std::min({count, candidates[i].available, candidates[i].reserved});
    count -= shares[i];
  }
  using Next = std::pair<double, size_t>;  // level, candidate
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto add = [&](size_t i) {
    const ShareCandidate& from = candidates[i];
    if (shares[i] >= from.available) return;
    next.push({from.level + static_cast<double>(shares[i]) * from.cost / from.weight, i});
  };
  for (size_t i = 0; i < candidates.size(); ++i) add(i);
  for (; count > 0 && !next.empty(); --count) {
    const size_t i = next.top().second;
    next.pop();
    ++shares[i];
    add(i);
  }
  return shares;
}

void JobWork::Add(double seconds) {
  done_ += seconds;
  if (count_ < kCostCountMax) ++count_;
  cost_ += (seconds - cost_) / static_cast<double>(count_);
}

void JobWork::StartAt(double level, double weight) {
  start_ = std::max(start_, level - done_ / weight);
}

int64_t ClassFloor::Credit(int32_t priority, int64_t granted) {
  if (credit_.size() > kClassesMax) credit_.clear();
  double& credit = credit_[priority];
  credit = std::min(credit + kFloorShare * static_cast<double>(granted), kCreditMax);
  return static_cast<int64_t>(credit);
}

}  // namespace nightshift
