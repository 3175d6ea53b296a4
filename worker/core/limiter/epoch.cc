#include "worker/core/limiter/epoch.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

// The mean call is a plain mean at first, then follows slowly.
constexpr double kMeanWeightMin = 0.005;
constexpr double kPromptTokenWork = 0.1;
// Below this squared coefficient of variation all answers are as good as equally long.
constexpr double kVariationMin = 0.02;
// Short pauses between two leases do not spoil an epoch.
constexpr double kUnusedShareMax = 0.1;

}  // namespace

double MeanCall::Work(int64_t prompt_tokens, int64_t completion_tokens) {
  const double work = static_cast<double>(completion_tokens) +
                      kPromptTokenWork * static_cast<double>(prompt_tokens);
  return work > 0 ? work : 1;
}

void MeanCall::Add(int64_t prompt_tokens, int64_t completion_tokens) {
  ++count_;
  const double weight = std::max(1.0 / static_cast<double>(count_), kMeanWeightMin);
  completion_tokens_ += weight * (static_cast<double>(completion_tokens) - completion_tokens_);
  work_ += weight * (Work(prompt_tokens, completion_tokens) - work_);
}

void Epoch::Begin(MonotonicTime from) {
  *this = Epoch();
  from_ = from;
}

void Epoch::OnStart(MonotonicTime now) {
  if (counts(now)) ++started_;
}

void Epoch::OnAnswer(MonotonicTime started, absl::Duration latency, int64_t prompt_tokens,
                     int64_t completion_tokens, bool in_use) {
  if (!counts(started)) return;
  ++ended_;
  ++answers_;
  if (!in_use) ++unused_;
  const double n = static_cast<double>(completion_tokens);
  const double t = absl::ToDoubleSeconds(latency);
  const double u = MeanCall::Work(prompt_tokens, completion_tokens);
  n_ += n;
  nn_ += n * n;
  t_ += t;
  tt_ += t * t;
  tn_ += t * n;
  u_ += u;
  uu_ += u * u;
}

void Epoch::OnDrop(MonotonicTime started) {
  if (counts(started)) ++ended_;
}

double Epoch::EffectiveSamples() const { return uu_ > 0 ? u_ * u_ / uu_ : 0; }

bool Epoch::Starved() const {
  return static_cast<double>(unused_) > kUnusedShareMax * static_cast<double>(answers_);
}

EpochMeasure Epoch::Measure(int level, const MeanCall& mean) const {
  const double count = static_cast<double>(answers_);
  const double mean_n = n_ / count;
  const double mean_t = t_ / count;
  const double var_n = nn_ / count - mean_n * mean_n;
  const double var_t = tt_ / count - mean_t * mean_t;
  const double cov = tn_ / count - mean_t * mean_n;

  double pace = 0;
  double pace_error = 0;
  const bool has_line = count >= 4 && var_n > kVariationMin * mean_n * mean_n;
  if (has_line) {
    pace = std::max(0.0, cov / var_n);
    pace_error = std::sqrt(std::max(0.0, var_t - pace * cov) / ((count - 2) * var_n));
  }
  double wait = mean_t - pace * mean_n;
  if (wait < 0) {
    wait = 0;
    pace = mean_t / mean_n;
  }
  const double latency = std::max(wait + pace * mean.completion_tokens(), 1e-9);

  EpochMeasure measure;
  measure.throughput = level * mean.work() / latency;
  measure.latency = mean_t;
  measure.can_tell = has_line;
  if (has_line) {
    measure.served = std::min(1.0, pace * mean.completion_tokens() / latency);
    measure.served_error = std::min(1.0, pace_error * mean.completion_tokens() / latency);
  }
  return measure;
}

}  // namespace nightshift
