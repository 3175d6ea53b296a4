// Epochs, moves between levels, refusals. What is made of an epoch is in fill_decisions.cc.
#include "worker/core/limiter/fill_limiter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

// An epoch ends by samples and by time: by samples so that servers of any speed have as much behind
// a decision, by time so that a fast one is not judged by a hiccup. A short look is for climbing:
// its answers are those that happened to end first, so it may only say "go on".
constexpr absl::Duration kShortLookMin = absl::Milliseconds(200);
constexpr absl::Duration kLongLookMin = absl::Milliseconds(500);
// Calls that began before the level's last change, as a share of the level, at the end of a look.
constexpr double kOldMaxShort = 0.5;
constexpr double kOldMaxLong = 0.25;

// Going up takes this share of a latency, so that a server is not flooded and a refusal stops it.
constexpr double kRiseShare = 0.15;
constexpr absl::Duration kRiseMin = absl::Milliseconds(20);
// Calls that begin sooner after a move do not count: the server is between two levels. In a test,
// after a step up, its queue has to grow first.
constexpr double kSettleShare = 0.15;
constexpr double kSettleShareUp = 0.8;

// Less of the level than this in use, and nothing is concluded.
constexpr double kInUseMin = 0.9;

constexpr double kStepDown = 0.85;      // after a refusal, of what was in flight
constexpr double kBelowRefusal = 0.95;  // for a while
constexpr double kBelowHarm = 0.9;
constexpr absl::Duration kRefusalSpan = absl::Minutes(2);
constexpr absl::Duration kHarmSpan = absl::Minutes(45);
constexpr absl::Duration kDistrustSpan = absl::Minutes(5);
constexpr absl::Duration kSpanMax = absl::Hours(3);
constexpr absl::Duration kFirstGap = absl::Minutes(1);

}  // namespace

FillLimiter::FillLimiter(int first)
    : level_(std::clamp(first, kMin, kMax)),
      current_(level_),
      reason_("the first level"),
      patience_(2),
      up_gap_(kFirstGap),
      down_gap_(kFirstGap) {
  refusal_.span = kRefusalSpan;
  harm_.span = kHarmSpan;
  distrust_.span = kDistrustSpan;
}

void FillLimiter::OnStart(MonotonicTime now) {
  if (!has_begun_) {
    has_begun_ = true;
    epoch_.Begin(now);
  }
  Rise(now);
  epoch_.OnStart(now);
}

void FillLimiter::OnFinish(const FinishSample& sample, MonotonicTime now) {
  Rise(now);
  mean_.Add(sample.prompt_tokens, sample.completion_tokens);
  // It was in flight itself, and another may be just about to start.
  const bool in_use = !sample.starved && sample.in_flight + 2 >= kInUseMin * current_;
  epoch_.OnAnswer(now - sample.latency, sample.latency, sample.prompt_tokens,
                  sample.completion_tokens, in_use);
  if (!EpochIsOver(sample.in_flight, now)) return;
  starved_ = epoch_.Starved();
  if (starved_) {
    epoch_.Begin(now);
    return;
  }
  EpochMeasure measure = epoch_.Measure(level_, mean_);
  measure.solid = IsSolid(sample.in_flight);
  latency_ = measure.latency;
  memory_.Add(level_, measure.throughput, measure.solid, now);
  switch (phase_) {
    case Phase::kClimb:
      return Climb(measure, now);
    case Phase::kHold:
      return Hold(measure, now);
    case Phase::kTest:
      return Test(measure, now);
  }
}

void FillLimiter::OnDrop(MonotonicTime started, MonotonicTime now) {
  Rise(now);
  epoch_.OnDrop(started);
}

void FillLimiter::OnReject(MonotonicTime started, int in_flight, MonotonicTime now) {
  Rise(now);
  epoch_.OnDrop(started);
  // Sent before the last step down: no news.
  if (started <= stepped_at_) return;
  // With so few in flight it is no matter of room: the server is down, starting, or not ours alone.
  const int refused = in_flight + 1;
  if (2 * refused < current_) return;
  stepped_at_ = now;
  Raise(refusal_, refused, now);
  capacity_ = 0;
  StartHold(static_cast<int>(kStepDown * refused),
            absl::StrCat("the backend refused calls with ", refused, " in flight"), now);
}

void FillLimiter::Raise(Barrier& barrier, int level, MonotonicTime now) {
  // Met again after it was gone: it stands longer. Several in one go are one occasion.
  if (barrier.level > 0 && now >= barrier.until) {
    barrier.span = std::min(barrier.span * 2, kSpanMax);
  }
  barrier.level = level;
  barrier.until = now + barrier.span;
}

int FillLimiter::Top(MonotonicTime now) const {
  double top = kMax;
  if (now < refusal_.until) top = std::min(top, kBelowRefusal * refusal_.level);
  if (now < harm_.until) top = std::min(top, kBelowHarm * harm_.level);
  return std::max(static_cast<int>(top), kMin);
}

void FillLimiter::Rise(MonotonicTime now) {
  if (current_ == level_) return;
  const absl::Duration gone = now - rise_at_;
  if (gone >= rise_time_) {
    current_ = level_;
    return;
  }
  const double part = absl::FDivDuration(gone, rise_time_);
  current_ = std::max(current_, rise_from_ + static_cast<int>((level_ - rise_from_) * part));
}

void FillLimiter::SetLevel(int level, std::string reason, MonotonicTime now) {
  level = std::clamp(level, kMin, now < refusal_.until ? std::min(Top(now), kMax) : kMax);
  double settle = 0;
  if (phase_ != Phase::kClimb && level != level_) {
    const double rose = static_cast<double>(level) / level_;
    settle = phase_ == Phase::kTest && rose > 1 ? kSettleShareUp * rose : kSettleShare;
  }
  epoch_.Begin(now + absl::Seconds(settle * latency_));
  level_ = level;
  reason_ = std::move(reason);
  if (level <= current_) {
    current_ = level;
    return;
  }
  rise_from_ = current_;
  rise_at_ = now;
  rise_time_ = absl::Seconds(kRiseShare * latency_);
  if (rise_time_ < kRiseMin) current_ = level;
}

bool FillLimiter::IsSolid(int in_flight) const {
  return epoch_.Old(in_flight) <= kOldMaxLong * level_ &&
         epoch_.EffectiveSamples() >= std::clamp(level_ / 2, 16, 150);
}

bool FillLimiter::EpochIsOver(int in_flight, MonotonicTime now) const {
  if (epoch_.answers() == 0) return false;
  const absl::Duration gone = now - epoch_.from();
  if (phase_ != Phase::kClimb || looks_long_) return gone >= kLongLookMin && IsSolid(in_flight);
  return gone >= kShortLookMin && epoch_.Old(in_flight) <= kOldMaxShort * level_ &&
         epoch_.EffectiveSamples() >= std::clamp(level_ / 8, 6, 60);
}

void FillLimiter::StartClimb(const Step& base, int level, std::string reason, MonotonicTime now) {
  phase_ = Phase::kClimb;
  level = std::min(level, Top(now));
  // A short look cannot tell the difference that a small step makes.
  looks_long_ = level < 1.6 * base.level;
  base_ = base;
  SetLevel(level, std::move(reason), now);
}

void FillLimiter::StartHold(int level, std::string reason, MonotonicTime now) {
  phase_ = Phase::kHold;
  held_epochs_ = 0;
  served_sum_ = served_weight_ = throughput_sum_ = 0;
  worse_epochs_ = 0;
  SetLevel(level, std::move(reason), now);
}

void FillLimiter::StartTest(Purpose purpose, int low, int high, MonotonicTime now) {
  phase_ = Phase::kTest;
  purpose_ = purpose;
  test_ = PairedTest(low, high, /*high_first=*/purpose == Purpose::kUp);
  SetLevel(test_.turn(), absl::StrCat("comparing ", low, " with ", high, " by turns"), now);
}

std::string FillLimiter::Explain() const {
  return absl::StrCat(level_, ": ", reason_,
                      starved_ ? "; too little is being sent to learn more" : "");
}

}  // namespace nightshift
