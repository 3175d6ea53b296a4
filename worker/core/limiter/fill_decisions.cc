// What is made of an epoch: where to go next, and why.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/core/limiter/fill_limiter.h"

namespace nightshift {
namespace {

// Calls that wait, as a share of those that are served: what keeps slots from standing empty.
constexpr double kQueueShare = 0.03;
// Of the added calls, the share that must be served for a climb to go on.
constexpr double kServedOfAddedMin = 0.5;
// Where only throughput can be seen: its growth per doubling of the level.
constexpr double kGrowthMin = 0.05;
// A short look at throughput says "go on" from this growth on: answers that end first flatter it.
constexpr double kGrowthMinShort = 0.2;
// More throughput than the calls said to be served could have brought.
constexpr double kContradiction = 1.25;
// A climb ends at a short look only when added calls wait by this many standard errors.
constexpr double kSure = 2.5;
constexpr double kLargeStep = 1.6;
// So much less throughput at the higher level is harm without a test.
constexpr double kHarm = 0.75;
// Estimates less exact than this are not used: of a short look, of a held level.
constexpr double kErrorMaxShort = 0.4;
constexpr double kErrorMaxHeld = 0.12;
// No estimate is more exact than this, whatever the line says: the model is not the server.
constexpr double kErrorMin = 0.01;
constexpr double kHeldWeightKept = 0.7;  // of older epochs at the held level

// Levels lower than this share of the lowest one tried are compared before they are believed.
constexpr double kFarBelow = 0.7;
// A held level does not move for less.
constexpr double kDeadBand = 0.97;
constexpr double kTestDown = 0.75;
// The level below must promise as much of the present throughput for a test to be worth its cost.
constexpr double kWorthATest = 0.92;
// Another level was this much better: its turn again.
constexpr double kRecallBelow = 0.75;
constexpr double kAnotherLevel = 0.25;  // of the logarithm
// One comparison is enough for this (of the logarithm).
constexpr double kObvious = 0.6;
constexpr int kTurnsMax = 9;
constexpr int kTurnsMaxDown = 12;
// Epochs differ by this much (of the logarithm) whatever the few seen so far say.
constexpr double kSpreadMin = 0.12;
constexpr int kPatience = 2;
constexpr int kPatienceMax = 8;
constexpr absl::Duration kGapMax = absl::Minutes(60);

int Wanted(double served) { return static_cast<int>(std::ceil(served * (1 + kQueueShare) + 0.3)); }

double Ratio(int a, int b) { return static_cast<double>(a) / b; }

MonotonicTime Later(absl::Duration& gap, MonotonicTime now) {
  gap = std::min(gap * 2, kGapMax);
  return now + gap;
}

constexpr char kQueueReason[] = "a request more would only wait in the server's queue";

}  // namespace

FillLimiter::Added FillLimiter::JudgeAdded(const Step& here, const EpochMeasure& measure,
                                           MonotonicTime now) {
  // More calls bring more throughput only by being served. (A small step is lost in the noise.)
  if (here.solid && base_.solid && level_ >= kLargeStep * base_.level &&
      here.served < base_.level && here.throughput > kContradiction * base_.throughput) {
    Raise(distrust_, level_, now);
  }
  const bool trusts = now >= distrust_.until;
  const double added = level_ - base_.level;
  const double share = (here.served - base_.served) / added;
  const double error = std::hypot(here.served_error, base_.served_error) / added;
  if (trusts && measure.served_error <= kErrorMaxShort && (here.solid || error < kErrorMaxShort)) {
    if (share + kSure * error < kServedOfAddedMin) return Added::kWaitSurely;
    if (here.solid) return share < kServedOfAddedMin ? Added::kWait : Added::kRun;
    return share - error < kServedOfAddedMin ? Added::kUnclear : Added::kRun;
  }
  if (trusts && measure.can_tell && !here.solid) {
    return here.throughput < (1 + kGrowthMinShort) * base_.throughput ? Added::kUnclear
                                                                      : Added::kRun;
  }
  if (trusts && !here.solid) return Added::kUnclear;
  const double growth_min = 1 + kGrowthMin * std::log2(Ratio(level_, base_.level));
  return here.throughput < growth_min * base_.throughput ? Added::kBringNothing : Added::kRun;
}

void FillLimiter::Climb(const EpochMeasure& measure, MonotonicTime now) {
  const Step here = {.level = level_,
                     .throughput = measure.throughput,
                     .served = measure.served * level_,
                     .served_error = std::max(measure.served_error, kErrorMin) * level_,
                     .solid = measure.solid};
  if (base_.level > 0) {
    const Added added = JudgeAdded(here, measure, now);
    if (added != Added::kRun && added != Added::kWaitSurely && !looks_long_) {
      looks_long_ = true;
      return SetLevel(level_, "looking for longer before going on", now);
    }
    if (here.solid && base_.solid && here.throughput < kHarm * base_.throughput) {
      Raise(harm_, level_, now);
      return StartHold(base_.level,
                       absl::StrCat("with ", level_, " in flight the backend gets less done"), now);
    }
    if (added == Added::kWait || added == Added::kWaitSurely) return QueueFound(here.served, now);
    if (added != Added::kRun) {
      up_at_ = now + up_gap_;
      down_at_ = now + down_gap_;
      capacity_ = 0;
      return StartHold(base_.level, "more in flight brought no more throughput", now);
    }
    capacity_ = 0;
    patience_ = kPatience;
  }
  if (level_ >= Top(now)) {
    return StartHold(level_,
                     level_ >= kMax ? "the most that is ever in flight"
                                    : "more would be too near to where the backend had enough",
                     now);
  }
  StartClimb(here, 2 * level_, "each request more has been served so far", now);
}

void FillLimiter::QueueFound(double served, MonotonicTime now) {
  if (capacity_ > 0) patience_ = std::min(patience_ * 2, kPatienceMax);
  capacity_ = served;
  const int wanted = std::min(Wanted(served), level_);
  if (ShrinkTo(wanted, base_.level, now)) return;
  StartHold(wanted, kQueueReason, now);
  TestDown(now);
}

// Far below all that was tried an estimate has to be confirmed. False: it is not so far.
bool FillLimiter::ShrinkTo(int wanted, int from, MonotonicTime now) {
  if (wanted >= kFarBelow * from) return false;
  StartTest(Purpose::kShrink, std::max(wanted, from / 4), from, now);
  return true;
}

void FillLimiter::Hold(const EpochMeasure& measure, MonotonicTime now) {
  ++held_epochs_;
  const double error = std::max(measure.served_error, kErrorMin);
  served_sum_ = kHeldWeightKept * served_sum_ + measure.served / (error * error);
  served_weight_ = kHeldWeightKept * served_weight_ + 1 / (error * error);
  throughput_sum_ += measure.throughput;
  if (held_epochs_ > 1) settled_ = level_;
  if (Recall(measure.throughput, now)) return;
  const bool trusts = now >= distrust_.until;
  if (trusts && 1 / std::sqrt(served_weight_) <= kErrorMaxHeld) {
    if (HoldByServed(now)) return;
  } else if (!trusts || held_epochs_ >= 3) {
    if (HoldByThroughput(now)) return;
  }
  SetLevel(level_, reason_, now);
}

bool FillLimiter::Recall(double throughput, MonotonicTime now) {
  const auto best = memory_.Best();
  const bool worse = best.has_value() &&
                     std::abs(std::log(Ratio(best->level, level_))) > kAnotherLevel &&
                     throughput < kRecallBelow * best->throughput;
  worse_epochs_ = worse ? worse_epochs_ + 1 : 0;
  if (worse_epochs_ < 2) return false;
  StartTest(Purpose::kRecall, std::min(level_, best->level), std::max(level_, best->level), now);
  return true;
}

bool FillLimiter::HoldByServed(MonotonicTime now) {
  if (held_epochs_ < 2) return false;
  const double share = served_sum_ / served_weight_;
  const double served = share * level_;
  const bool knows_capacity =
      capacity_ > 0 && served > 0.75 * capacity_ && served < 1.33 * capacity_;
  const bool nothing_waits = share >= 1 - 0.4 * kQueueShare;
  if (nothing_waits || !knows_capacity) {
    if (level_ >= Top(now) || (knows_capacity && held_epochs_ < patience_)) return false;
    const int above =
        std::max(level_ + 1, static_cast<int>(std::ceil((knows_capacity ? 1.25 : 1.4) * level_)));
    if (now < harm_.until && above > Top(now)) return false;
    const Step here = {.level = level_,
                       .throughput = throughput_sum_ / held_epochs_,
                       .served = served,
                       .served_error = level_ / std::sqrt(served_weight_),
                       .solid = true};
    StartClimb(here, above, "trying whether more are served", now);
    return true;
  }
  if (TestDown(now)) return true;
  const int wanted = Wanted(served);
  if (wanted >= kDeadBand * level_) return false;
  capacity_ += 0.3 * (served - capacity_);
  if (!ShrinkTo(wanted, level_, now)) StartHold(wanted, kQueueReason, now);
  return true;
}

bool FillLimiter::HoldByThroughput(MonotonicTime now) {
  if (now < up_at_ || level_ >= Top(now)) return TestDown(now);
  StartTest(Purpose::kUp, level_, std::min(Top(now), std::max(level_ + 1, 3 * level_ / 2)), now);
  return true;
}

bool FillLimiter::TestDown(MonotonicTime now) {
  if (now < down_at_ || level_ < 3) return false;
  const int low = std::min(level_ - 1, static_cast<int>(std::lround(kTestDown * level_)));
  const auto expected = memory_.Expect(low);
  const auto here = memory_.Expect(level_);
  if (expected.has_value() && here.has_value() && *expected < kWorthATest * *here) {
    down_at_ = now + down_gap_;
    return false;
  }
  StartTest(Purpose::kDown, low, level_, now);
  return true;
}

void FillLimiter::Test(const EpochMeasure& measure, MonotonicTime now) {
  test_.Add(measure.throughput);
  const int n = test_.count();
  const double low = test_.advantage_of_low();
  const bool last = n >= (purpose_ == Purpose::kDown ? kTurnsMaxDown : kTurnsMax);
  // Several looks at the same figures, and few of them: what counts as sure begins higher.
  const double sure = 2 + 4.0 / n;
  // Too few comparisons agree by chance too often.
  const double error = std::max(test_.error(), n >= 2 ? kSpreadMin * std::sqrt(2.0 / n) : 1.0);
  if (n == 1 && std::abs(low) > kObvious) return TestIsOver(low > 0, now);
  if (n >= 2) {
    switch (purpose_) {
      case Purpose::kShrink:
        // The estimate speaks for the lower level, so it takes much to go against it.
        if (n >= 3 && low < -0.15 && -low > sure * error) return TestIsOver(false, now);
        if (low > -0.08 || last) return TestIsOver(low > -0.2, now);
        break;
      case Purpose::kUp:
        if (n >= 3 && low < -0.025 && -low > sure * test_.error()) return TestIsOver(false, now);
        if ((n >= 3 && low + test_.error() > -0.02) || last) return TestIsOver(true, now);
        break;
      case Purpose::kDown:
        if (test_.low_always_better(0.25) || (n >= 3 && low > 2 * error)) {
          return TestIsOver(true, now);
        }
        if (test_.high_always_better(0.03) || (n >= 3 && low < 0.005)) {
          return TestIsOver(false, now);
        }
        if (last) return TestIsOver(low > 1.5 * error, now);
        break;
      case Purpose::kRecall:
        if (n >= 3 && (std::abs(low) > 2 * test_.error() || last)) {
          return TestIsOver(low > -0.05, now);
        }
        break;
    }
  }
  SetLevel(test_.turn(), reason_, now);
}

void FillLimiter::TestIsOver(bool low_wins, MonotonicTime now) {
  const int low = test_.low();
  const int high = test_.high();
  std::string reason =
      absl::StrCat("compared by turns, ", high, " in flight get more done than ", low);
  switch (purpose_) {
    case Purpose::kShrink:
      if (low_wins) {
        reason = kQueueReason;
        break;
      }
      Raise(distrust_, high, now);
      capacity_ = 0;
      up_at_ = down_at_ = now + up_gap_;
      return StartClimb({.level = high, .throughput = memory_.Expect(high).value_or(0)}, 2 * high,
                        std::move(reason), now);
    case Purpose::kUp:
      if (low_wins)
        reason = absl::StrCat("compared by turns, ", high, " in flight get no more done");
      up_at_ = low_wins ? Later(up_gap_, now) : now;
      break;
    case Purpose::kDown:
      if (low_wins) {
        reason = absl::StrCat("compared by turns, ", high, " in flight get less done");
        Raise(harm_, high, now);
        down_at_ = now + down_gap_;
      } else {
        reason = absl::StrCat("compared by turns, ", low, " in flight get no more done");
        down_at_ = Later(down_gap_, now);
      }
      break;
    case Purpose::kRecall:
      memory_.Forget(low_wins ? high : low);
      if (low_wins) {
        reason = absl::StrCat("compared by turns, ", high, " in flight get less done");
        Raise(harm_, high, now);
      }
      break;
  }
  StartHold(low_wins ? low : high, std::move(reason), now);
}

}  // namespace nightshift
