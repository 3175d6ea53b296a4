#include "coordinator/core/fair_share.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace nightshift {
namespace {

// Raises the lowest levels of one priority until `count` is given away. Returns what is left of it.
int64_t Raise(int64_t count, const std::vector<ShareCandidate>& candidates,
              const std::vector<size_t>& group, std::vector<int64_t>* shares) {
  const auto level = [&](size_t i) { return candidates[i].in_flight + (*shares)[i]; };
  const auto room = [&](size_t i) { return candidates[i].available - (*shares)[i]; };
  while (count > 0) {
    // Those at the lowest level that can still give, and how far it is to the next level.
    int64_t lowest = std::numeric_limits<int64_t>::max();
    int64_t next = lowest;
    for (const size_t i : group) {
      if (room(i) <= 0) continue;
      if (level(i) < lowest) {
        next = lowest;
        lowest = level(i);
      } else if (level(i) > lowest) {
        next = std::min(next, level(i));
      }
    }
    if (lowest == std::numeric_limits<int64_t>::max()) return count;
    std::vector<size_t> low;
    int64_t step = next == std::numeric_limits<int64_t>::max() ? count : next - lowest;
    for (const size_t i : group) {
      if (room(i) > 0 && level(i) == lowest) {
        low.push_back(i);
        step = std::min(step, room(i));
      }
    }
    step = std::min(step, count / static_cast<int64_t>(low.size()));
    for (const size_t i : low) {
      const int64_t give = step > 0 ? step : std::min<int64_t>(1, count);
      (*shares)[i] += give;
      count -= give;
    }
  }
  return 0;
}

}  // namespace

std::vector<int64_t> DivideGrant(int64_t count, const std::vector<ShareCandidate>& candidates) {
  std::vector<int64_t> shares(candidates.size(), 0);
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return candidates[a].priority > candidates[b].priority;
  });
  for (size_t begin = 0; begin < order.size() && count > 0;) {
    size_t end = begin;
    while (end < order.size() &&
           candidates[order[end]].priority == candidates[order[begin]].priority) {
      ++end;
    }
    count = Raise(count, candidates, {order.begin() + begin, order.begin() + end}, &shares);
    begin = end;
  }
  return shares;
}

}  // namespace nightshift
