// Chance as an argument: a seeded generator that a test can replay.
#ifndef NIGHTSHIFT_BASE_RANDOM_H_
#define NIGHTSHIFT_BASE_RANDOM_H_

#include <cstdint>

namespace nightshift {

// xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64. Not for secrets. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed);

  // A generator seeded from the operating system.
  static Random FromSystem();

  uint64_t Next();
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1).
  double Unit();
  // True with probability `p`.
  bool Chance(double p) { return Unit() < p; }
  // Log-normal with the given median and sigma of the logarithm.
  double LogNormal(double median, double sigma);
  double Gaussian();

 private:
  uint64_t state_[4];
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_RANDOM_H_
