// Fills a backend: raises the number of calls in flight while those that are in flight are really
// being served, or, where that cannot be seen, while throughput grows; stops at a small standing
// queue; goes down on proof of harm and on refusals.
//
// An extra call in flight costs a batch job nothing unless it waits in the server's queue or makes
// the server slower, so it is less that has to be proved, not more: by comparing two levels by
// turns. The levels tried are remembered, and one that was clearly better is gone back to.
//
// Not thread-safe. Pure: it knows no clock.
#ifndef NIGHTSHIFT_WORKER_CORE_LIMITER_FILL_LIMITER_H_
#define NIGHTSHIFT_WORKER_CORE_LIMITER_FILL_LIMITER_H_

#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/core/limiter.h"
#include "worker/core/limiter/epoch.h"
#include "worker/core/limiter/level_memory.h"
#include "worker/core/limiter/paired_test.h"

namespace nightshift {

class FillLimiter final : public Limiter {
 public:
  explicit FillLimiter(int initial_level);

  void OnStart(MonotonicTime now) override;
  void OnFinish(const FinishSample& sample, MonotonicTime now) override;
  void OnReject(MonotonicTime started, int in_flight, MonotonicTime now) override;
  void OnDrop(MonotonicTime started, MonotonicTime now) override;
  int limit() const override { return current_; }
  std::string Explain() const override;

 private:
  enum class Phase { kRamp, kHold, kTest };
  enum class Purpose { kShrink, kUp, kDown, kRecall };
  struct Tried {
    int level = 0;  // 0: none
    double throughput = 0;
    bool solid = false;
  };

  bool IsSolid(int in_flight) const;
  bool EpochIsOver(int in_flight, MonotonicTime now) const;
  void OnEpoch(MonotonicTime now);
  void Ramp(const EpochMeasure& measure, MonotonicTime now);
  void Hold(const EpochMeasure& measure, MonotonicTime now);
  void Test(const EpochMeasure& measure, MonotonicTime now);
  void TestIsOver(bool low_wins, MonotonicTime now);
  bool Recall(double throughput, MonotonicTime now);
  bool FollowServed(const EpochMeasure& measure, MonotonicTime now);
  void StartTest(Purpose purpose, int low, int high, MonotonicTime now);
  void StartHold(int level, std::string reason, MonotonicTime now);
  void SetLevel(int level, std::string reason, MonotonicTime now);
  void CapAt(int level, MonotonicTime now);
  int Wanted(double served) const;
  int Top(MonotonicTime now) const;
  absl::Duration Gap(absl::Duration gap) const;
  void Rise(MonotonicTime now);

  // The level aimed at, and how far the way there has been gone.
  int level_;
  int current_;
  int rise_from_ = 0;
  MonotonicTime rise_at_;
  absl::Duration rise_time_ = absl::ZeroDuration();

  Phase phase_ = Phase::kRamp;
  MeanCall mean_;
  Epoch epoch_;
  double latency_ = 0;
  LevelMemory memory_;
  std::string reason_ = "the start value";
  bool has_begun_ = false;

  bool solid_ = false;
  Tried previous_;
  Tried best_;
  bool looked_twice_ = false;

  Purpose purpose_ = Purpose::kShrink;
  PairedTest test_;

  std::deque<double> served_;
  int bad_ = 0;
  bool grew_ = false;
  MonotonicTime trust_at_;
  MonotonicTime up_at_, down_at_;
  absl::Duration trust_gap_, up_gap_, down_gap_, cap_gap_, ceiling_gap_;
  int cap_ = 0;
  MonotonicTime cap_until_;
  MonotonicTime stepped_at_;
  int ceiling_ = 0;
  MonotonicTime ceiling_until_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_FILL_LIMITER_H_
