#include "worker/core/limiter/fill_limiter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

constexpr int kMin = 1;
constexpr int kMax = 1024;
constexpr double kQueueShare = 0.04;
constexpr absl::Duration kRampEpochMin = absl::Milliseconds(200);
constexpr absl::Duration kEpochMin = absl::Milliseconds(500);
constexpr double kRiseShare = 0.15;
constexpr double kSettleShare = 0.15;
constexpr absl::Duration kGapMin = absl::Seconds(60);
constexpr absl::Duration kGapMax = absl::Minutes(30);
constexpr absl::Duration kCapGap = absl::Minutes(5);
constexpr absl::Duration kCeilingGap = absl::Minutes(2);

}  // namespace

FillLimiter::FillLimiter(int initial_level)
    : level_(std::clamp(initial_level, kMin, kMax)),
      current_(level_),
      trust_gap_(kCapGap),
      up_gap_(kGapMin),
      down_gap_(kGapMin),
      cap_gap_(kCapGap),
      ceiling_gap_(kCeilingGap) {}

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
  const bool in_use = !sample.starved && sample.in_flight + 2 >= 0.9 * current_;
  epoch_.OnAnswer(now - sample.latency, sample.latency, sample.prompt_tokens,
                  sample.completion_tokens, in_use);
  if (!EpochIsOver(sample.in_flight, now)) return;
  solid_ = IsSolid(sample.in_flight);
  OnEpoch(now);
}

void FillLimiter::OnDrop(MonotonicTime started, MonotonicTime now) {
  Rise(now);
  epoch_.OnDrop(started);
}

void FillLimiter::OnReject(MonotonicTime started, int in_flight, MonotonicTime now) {
  Rise(now);
  epoch_.OnDrop(started);
  if (started <= stepped_at_) return;
  const int at = in_flight + 1;
  if (2 * at < current_) return;
  stepped_at_ = now;
  ceiling_ = at;
  ceiling_until_ = now + ceiling_gap_;
  ceiling_gap_ = std::min(ceiling_gap_ * 2, kGapMax);
  StartHold(static_cast<int>(0.85 * at), absl::StrCat("refused with ", at, " in flight"), now);
  epoch_.Begin(now);
}

void FillLimiter::Rise(MonotonicTime now) {
  if (current_ == level_) return;
  const absl::Duration gone = now - rise_at_;
  if (gone >= rise_time_) {
    current_ = level_;
  } else {
    current_ =
        std::max(current_, rise_from_ + static_cast<int>((level_ - rise_from_) *
                                                         absl::FDivDuration(gone, rise_time_)));
  }
}

int FillLimiter::Top(MonotonicTime now) const {
  int top = kMax;
  if (now < ceiling_until_) top = std::min(top, static_cast<int>(0.95 * ceiling_));
  if (now < cap_until_) top = std::min(top, static_cast<int>(0.9 * cap_));
  return std::max(top, kMin);
}

void FillLimiter::SetLevel(int level, std::string reason, MonotonicTime now) {
  level = std::clamp(level, kMin, kMax);
  if (now < ceiling_until_) level = std::min(level, std::max(kMin, int(0.95 * ceiling_)));
  const bool moved = level != level_;
  level_ = level;
  reason_ = std::move(reason);
  MonotonicTime from = now;
  if (level > current_) {
    rise_from_ = current_;
    rise_at_ = now;
    rise_time_ = absl::Seconds(kRiseShare * latency_);
    if (rise_time_ < absl::Milliseconds(20)) {
      current_ = level;
    }
  } else {
    current_ = level;
  }
  if (moved && phase_ != Phase::kRamp) from = now + absl::Seconds(kSettleShare * latency_);
  epoch_.Begin(from);
}

bool FillLimiter::IsSolid(int in_flight) const {
  return epoch_.Old(in_flight) <= 0.25 * level_ &&
         epoch_.EffectiveSamples() >= std::clamp(level_ / 2, 16, 150);
}

bool FillLimiter::EpochIsOver(int in_flight, MonotonicTime now) const {
  if (epoch_.answers() == 0) return false;
  const bool glance = phase_ == Phase::kRamp && !looked_twice_;
  if (now - epoch_.from() < (glance ? kRampEpochMin : kEpochMin)) return false;
  if (!glance) return IsSolid(in_flight);
  return epoch_.Old(in_flight) <= 0.5 * level_ &&
         epoch_.EffectiveSamples() >= std::clamp(level_ / 8, 6, 60);
}

void FillLimiter::OnEpoch(MonotonicTime now) {
  if (epoch_.Starved()) {
    epoch_.Begin(now);
    return;
  }
  const EpochMeasure measure = epoch_.Measure(level_, mean_);
  latency_ = measure.latency;
  if (solid_) memory_.Add(level_, measure.throughput, now);
  switch (phase_) {
    case Phase::kRamp:
      return Ramp(measure, now);
    case Phase::kHold:
      return Hold(measure, now);
    case Phase::kTest:
      return Test(measure, now);
  }
}

int FillLimiter::Wanted(double served) const {
  return static_cast<int>(std::ceil(served * level_ * (1 + kQueueShare) + 0.3));
}

absl::Duration FillLimiter::Gap(absl::Duration gap) const { return gap; }

void FillLimiter::CapAt(int level, MonotonicTime now) {
  cap_ = level;
  cap_until_ = now + cap_gap_;
  cap_gap_ = std::min(cap_gap_ * 2, kGapMax);
}

void FillLimiter::Ramp(const EpochMeasure& measure, MonotonicTime now) {
  const double x = measure.throughput;
  // More calls bring more throughput only by being served: an estimate that says otherwise is
  // wrong.
  if (previous_.level > 0 && previous_.solid && solid_) {
    const double served_gain = std::max(1.0, measure.served * level_ / previous_.level);
    if (x > 1.25 * served_gain * previous_.throughput) trust_at_ = now + trust_gap_;
  }
  const bool known = now >= trust_at_ && measure.served_error < 0.15;
  const bool queue = known && measure.served + measure.served_error < 0.75;
  const bool runs = known && measure.served - measure.served_error > 0.6;
  const bool flat = !runs && previous_.level > 0 && x < 1.05 * previous_.throughput;
  const bool drop = best_.level > 0 && x < 0.88 * best_.throughput;
  if ((queue || flat || drop) && !looked_twice_) {
    looked_twice_ = true;
    SetLevel(level_, "looking again", now);
    return;
  }
  looked_twice_ = false;
  if (x > best_.throughput) best_ = {level_, x, solid_};
  if (queue || flat || drop || level_ >= Top(now)) {
    up_at_ = now + up_gap_;
    down_at_ = now;
    if (queue && previous_.level == 0) {
      StartTest(Purpose::kShrink, std::max(Wanted(measure.served), level_ / 2), level_, now);
    } else if (queue) {
      StartHold(std::clamp(Wanted(measure.served), std::max(previous_.level, level_ / 2), level_),
                "queue", now);
    } else if (drop || flat) {
      if (drop) CapAt(level_, now);
      StartHold(drop ? best_.level : previous_.level, drop ? "drop" : "flat", now);
    } else {
      StartHold(level_, "top", now);
    }
    return;
  }
  previous_ = {level_, x, solid_};
  SetLevel(std::min(2 * level_, Top(now)), "doubling", now);
}

void FillLimiter::StartHold(int level, std::string reason, MonotonicTime now) {
  phase_ = Phase::kHold;
  served_.clear();
  bad_ = 0;
  SetLevel(level, std::move(reason), now);
}

bool FillLimiter::Recall(double throughput, MonotonicTime now) {
  const auto best = memory_.Best();
  const bool far = best.has_value() && std::abs(std::log(1.0 * best->level / level_)) > 0.25 &&
                   throughput < 0.88 * best->throughput;
  bad_ = far ? bad_ + 1 : 0;
  if (bad_ < 2) return false;
  bad_ = 0;
  StartTest(Purpose::kRecall, std::min(level_, best->level), std::max(level_, best->level), now);
  return true;
}

bool FillLimiter::FollowServed(const EpochMeasure& measure, MonotonicTime now) {
  if (now < trust_at_ || measure.served_error > 0.2) return false;
  served_.push_back(measure.served);
  if (served_.size() > 3) served_.pop_front();
  if (served_.size() < 2) {
    SetLevel(level_, reason_, now);
    return true;
  }
  std::deque<double> sorted = served_;
  std::sort(sorted.begin(), sorted.end());
  const double served = sorted[sorted.size() / 2];
  const int wanted = Wanted(served);
  if (wanted < 0.94 * level_ && wanted <= level_ - 1) {
    grew_ = false;
    if (wanted > 0.85 * level_) {
      StartHold(wanted, "queue", now);
    } else {
      StartTest(Purpose::kShrink, std::max(wanted, level_ / 4), level_, now);
    }
    return true;
  }
  const double waiting = (1 - served) * level_;
  if (waiting <= std::max(0.6, 0.5 * kQueueShare * level_) && level_ < Top(now)) {
    served_.clear();
    if (grew_) {
      phase_ = Phase::kRamp;
      previous_ = {level_, measure.throughput, solid_};
      best_ = previous_;
      grew_ = false;
      SetLevel(std::min(2 * level_, Top(now)), "no queue: ramp", now);
      return true;
    }
    grew_ = true;
    SetLevel(std::min(std::max(level_ + 1, static_cast<int>(1.25 * level_)), Top(now)), "no queue",
             now);
    return true;
  }
  grew_ = false;
  return false;
}

void FillLimiter::Hold(const EpochMeasure& measure, MonotonicTime now) {
  if (Recall(measure.throughput, now)) return;
  if (FollowServed(measure, now)) return;
  const bool known = now >= trust_at_ && measure.served_error <= 0.2;
  if (!known && now >= up_at_ && level_ < Top(now)) {
    StartTest(Purpose::kUp, level_, std::min(Top(now), std::max(level_ + 1, 3 * level_ / 2)), now);
    return;
  }
  if (now >= down_at_ && level_ > kMin) {
    const int low = std::min(level_ - 1, static_cast<int>(std::lround(0.8 * level_)));
    const auto expected = memory_.Expect(low);
    const auto here = memory_.Expect(level_);
    if (!expected.has_value() || *expected > 0.96 * *here) {
      StartTest(Purpose::kDown, low, level_, now);
      return;
    }
  }
  SetLevel(level_, reason_, now);
}

void FillLimiter::StartTest(Purpose purpose, int low, int high, MonotonicTime now) {
  phase_ = Phase::kTest;
  purpose_ = purpose;
  test_ = PairedTest(low, high, purpose == Purpose::kUp);
  SetLevel(test_.turn(), absl::StrCat("comparing ", low, " with ", high), now);
}

void FillLimiter::Test(const EpochMeasure& measure, MonotonicTime now) {
  test_.Add(measure.throughput);
  const int n = test_.count();
  const double low = test_.advantage_of_low();
  const double error = test_.error();
  const bool last = n >= 9;
  if (n >= 2) {
    switch (purpose_) {
      case Purpose::kShrink:
        if (n >= 3 && low < -0.05 && -low > (2.5 + 4.0 / n) * error) return TestIsOver(false, now);
        if (low > -0.02 || last) return TestIsOver(low > -0.08, now);
        break;
      case Purpose::kUp:
        if (n >= 3 && low < -0.025 && -low > (2 + 4.0 / n) * error) return TestIsOver(false, now);
        if ((n >= 3 && low + error > -0.02) || last) return TestIsOver(true, now);
        break;
      case Purpose::kDown:
        if (n >= 3 && low > 0.015 && low > 1.5 * error) return TestIsOver(true, now);
        if (test_.high_always_better(0.03) || (n >= 3 && low < 0.005) || last)
          return TestIsOver(false, now);
        break;
      case Purpose::kRecall:
        if (n >= 3 && (std::abs(low) > 1.5 * error || last)) return TestIsOver(low > 0, now);
        break;
    }
  }
  SetLevel(test_.turn(), reason_, now);
}

void FillLimiter::TestIsOver(bool low_wins, MonotonicTime now) {
  const int low = test_.low();
  const int high = test_.high();
  const std::string found =
      absl::StrCat(low_wins ? low : high, " rather than ", low_wins ? high : low);
  auto later = [&](absl::Duration& gap) {
    gap = std::min(gap * 2, kGapMax);
    return now + gap;
  };
  switch (purpose_) {
    case Purpose::kShrink:
      if (!low_wins) {
        trust_at_ = later(trust_gap_);
        if (previous_.level == 0) {
          phase_ = Phase::kRamp;
          previous_ = {high, memory_.Expect(high).value_or(0), true};
          return SetLevel(std::min(2 * high, Top(now)), found, now);
        }
      }
      break;
    case Purpose::kUp:
      up_at_ = low_wins ? later(up_gap_) : now;
      break;
    case Purpose::kDown:
      if (low_wins) {
        CapAt(high, now);
        down_at_ = now;
      } else {
        down_at_ = later(down_gap_);
      }
      break;
    case Purpose::kRecall:
      memory_.Forget(low_wins ? high : low);
      if (low_wins) CapAt(high, now);
      break;
  }
  StartHold(low_wins ? low : high, found, now);
}

std::string FillLimiter::Explain() const { return absl::StrCat(level_, ": ", reason_); }

}  // namespace nightshift
