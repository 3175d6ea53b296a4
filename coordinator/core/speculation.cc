#include "coordinator/core/speculation.h"

#include <algorithm>

namespace nightshift {

void DurationSpread::Add(double seconds, double latency) {
  if (latency <= 0 || seconds <= 0) return;
  const auto value = static_cast<float>(seconds / latency);
  if (values_.size() < kKept) {
    values_.push_back(value);
    return;
  }
  values_[next_] = value;
  next_ = (next_ + 1) % kKept;
}

double DurationSpread::Quantile(double q, double unknown) const {
  if (!known()) return unknown;
  std::vector<float> sorted = values_;
  const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + place, sorted.end());
  return static_cast<double>(sorted[static_cast<size_t>(place)]);
}

bool WorthACopy(double age, double owner, double helper, double q95) {
  if (helper <= 0) return false;
  const double rest = std::max(owner - age, age / 2);
  return age > kCopyPatience * q95 * helper && rest > kCopyPatience * helper;
}

int64_t CopiesMaxOfJob(int64_t requests) {
  return std::max<int64_t>(1, static_cast<int64_t>(kCopiesPerJob * static_cast<double>(requests)));
}

int64_t CopiesMaxAtATime(int64_t slots) {
  return std::max<int64_t>(1, static_cast<int64_t>(kCopiesPerSlots * static_cast<double>(slots)));
}

bool PaidByTheToken(const std::string& kind, const std::string& account) {
  return kind == "cerebras" || !account.empty();
}

}  // namespace nightshift
