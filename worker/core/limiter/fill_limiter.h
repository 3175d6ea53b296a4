// Fills a backend: finds the number of calls in flight at which it works on as many as it can while
// only a few wait, and stays there.
//
// An extra call in flight costs a batch job nothing unless it waits in the server's queue or makes
// the server slower. So the level climbs as long as what each step adds is really served, seen by
// the slope of latency over tokens (epoch.h). The question is not how many calls wait but how many
// of the added ones do: a part of every latency looks like waiting (a long prompt being read, say),
// but only a queue grows by all that is added. Where the share that is served cannot be seen, since
// answers are instant, all alike or without tokens, the level climbs while throughput does.
//
// Having found a queue, it holds the level at which a few calls wait, so that no slot is ever
// empty, and follows the server up and down from there. Two things are looked at by turns
// (paired_test.h): a level far below all that have been tried, and, where throughput has hardly
// grown on the way up, the level a quarter below: a server whose memory is full gets less done the
// more it is given, and its queue does not tell. A level that did harm is kept away from for a
// while. So is one at which the backend refused calls; each burst of refusals is one step down.
//
//               added calls run              they all wait, or throughput stands still
//             ┌───────────┐                 ┌───────────────────────────┐
//             │           ▼                 │                           ▼
//             └───────── kClimb ────────────┘   ┌──────────────────── kHold
//                          ▲                    │ something to compare    ▲
//                          │ nothing waits any  ▼                         │
//                          │ more, or        kTest ───────────────────────┘
//                          └─ no estimate       one level was better
//
// The numbers were found on the models in tests/worker/core/limiter. Varied one at a time by a
// third, most of them moved the mean over 400 servers by less than half a percent.
//
// Not thread-safe. Pure: it knows no clock.
#ifndef NIGHTSHIFT_WORKER_CORE_LIMITER_FILL_LIMITER_H_
#define NIGHTSHIFT_WORKER_CORE_LIMITER_FILL_LIMITER_H_

#include <string>

#include "worker/core/limiter.h"
#include "worker/core/limiter/epoch.h"
#include "worker/core/limiter/level_memory.h"
#include "worker/core/limiter/paired_test.h"

namespace nightshift {

class FillLimiter final : public Limiter {
 public:
  static constexpr int kMin = 1;
  static constexpr int kMax = 1024;

  // `first`: where it begins; brought between kMin and kMax.
  explicit FillLimiter(int first);

  void OnStart(MonotonicTime now) override;
  void OnFinish(const FinishSample& sample, MonotonicTime now) override;
  void OnReject(MonotonicTime started, int in_flight, MonotonicTime now) override;
  void OnDrop(MonotonicTime started, MonotonicTime now) override;
  int limit() const override { return current_; }
  int settled() const override { return settled_; }
  std::string Explain() const override;

 private:
  enum class Phase { kClimb, kHold, kTest };
  enum class Purpose {
    kShrink,  // the estimate says that far fewer calls would do
    kUp,      // without an estimate: would more bring more?
    kDown,    // does the present level do harm?
    kRecall,  // another level was clearly better
  };
  // A level as a climb saw it.
  struct Step {
    int level = 0;  // 0: none
    double throughput = 0;
    double served = 0;  // calls, not a share
    double served_error = 0;
    bool solid = false;  // by a long look
  };
  // What became of the calls that a climb's step added.
  enum class Added { kRun, kWait, kWaitSurely, kBringNothing, kUnclear };
  // Something to keep away from for a while; it lasts longer each time it is met again.
  struct Barrier {
    int level = 0;
    MonotonicTime until;
    absl::Duration span;
  };

  // --- fill_limiter.cc: epochs and moves
  bool IsSolid(int in_flight) const;
  bool EpochIsOver(int in_flight, MonotonicTime now) const;
  void StartClimb(const Step& base, int level, std::string reason, MonotonicTime now);
  void StartHold(int level, std::string reason, MonotonicTime now);
  void StartTest(Purpose purpose, int low, int high, MonotonicTime now);
  void SetLevel(int level, std::string reason, MonotonicTime now);
  void Rise(MonotonicTime now);
  // Sets the barrier, or sets it again.
  static void Raise(Barrier& barrier, int level, MonotonicTime now);
  // The highest level that nothing speaks against now.
  int Top(MonotonicTime now) const;

  // --- fill_decisions.cc: one decision per epoch
  void Climb(const EpochMeasure& measure, MonotonicTime now);
  Added JudgeAdded(const Step& here, const EpochMeasure& measure, MonotonicTime now);
  void QueueFound(double served, MonotonicTime now);
  void Hold(const EpochMeasure& measure, MonotonicTime now);
  bool Recall(double throughput, MonotonicTime now);
  bool HoldByServed(MonotonicTime now);
  bool HoldByThroughput(MonotonicTime now);
  bool TestDown(MonotonicTime now);
  bool ShrinkTo(int wanted, int from, MonotonicTime now);
  void Test(const EpochMeasure& measure, MonotonicTime now);
  void TestIsOver(bool low_wins, MonotonicTime now);

  // The level aimed at, and how far the way up there has been gone.
  int level_;
  int current_;
  int rise_from_ = 0;
  MonotonicTime rise_at_;
  absl::Duration rise_time_ = absl::ZeroDuration();

  int settled_ = 0;  // the last level that was held for more than a look

  Phase phase_ = Phase::kClimb;
  std::string reason_;
  bool has_begun_ = false;
  bool starved_ = false;  // the last epoch
  MeanCall mean_;
  Epoch epoch_;
  double latency_ = 0;  // seconds, of the last epoch
  LevelMemory memory_;

  // kClimb: what the present level is compared with.
  Step base_;
  bool looks_long_ = false;

  // kTest.
  Purpose purpose_ = Purpose::kShrink;
  PairedTest test_;

  // kHold: of the epochs at this level, the share served, weighted by exactness.
  int held_epochs_ = 0;
  double served_sum_ = 0;
  double served_weight_ = 0;
  double throughput_sum_ = 0;
  int worse_epochs_ = 0;  // in a row
  // Calls served when a climb found a queue; 0: none has.
  double capacity_ = 0;
  // Epochs without a queue before the next climb: more after each that found one at once.
  int patience_;

  Barrier distrust_;  // of the share served: throughput contradicted it
  Barrier harm_;
  Barrier refusal_;
  MonotonicTime stepped_at_;  // the last step down for a refusal
  MonotonicTime up_at_, down_at_;
  absl::Duration up_gap_, down_gap_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_FILL_LIMITER_H_
