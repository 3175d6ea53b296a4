// Compares two levels by turns: low, high, low, high, … Each turn is one epoch, and each is
// compared with the one before it, so that a server whose speed wanders slowly favours neither.
// What is averaged are logarithms of ratios: a server that is 10 % slower for a while shifts both
// levels by the same amount.
//
// Not thread-safe.
#ifndef NIGHTSHIFT_WORKER_CORE_LIMITER_PAIRED_TEST_H_
#define NIGHTSHIFT_WORKER_CORE_LIMITER_PAIRED_TEST_H_

namespace nightshift {

class PairedTest {
 public:
  PairedTest() = default;
  PairedTest(int low, int high, bool high_first);

  int low() const { return low_; }
  int high() const { return high_; }
  // The level whose turn it is.
  int turn() const { return high_turn_ ? high_ : low_; }

  // The throughput of the level whose turn it was; then it is the other's.
  void Add(double throughput);

  // Comparisons made: one less than turns.
  int count() const { return count_; }
  // The mean of ln(low / high): above 0 the lower level is better.
  double advantage_of_low() const { return count_ > 0 ? sum_ / count_ : 0; }
  // Its standard error. Two comparisons in a row share an epoch, which is allowed for.
  double error() const;
  // Every single comparison said so, by more than `by`.
  bool high_always_better(double by) const { return count_ > 0 && largest_ < -by; }
  bool low_always_better(double by) const { return count_ > 0 && smallest_ > by; }

 private:
  int low_ = 0;
  int high_ = 0;
  bool high_turn_ = false;
  double previous_ = 0;  // 0: no turn yet
  int count_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
  double largest_ = 0;
  double smallest_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_PAIRED_TEST_H_
