#include "tests/worker/core/limiter/rivals.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace nightshift {
namespace {

constexpr double kMax = 1024;
constexpr double kFirst = 20;

// What the three share: a decision each second, by the mean latency of at least ten answers.
class WindowedLimiter : public Limiter {
 public:
  void OnStart(MonotonicTime) override {}
  void OnDrop(MonotonicTime, MonotonicTime) override {}
  void OnReject(MonotonicTime, int, MonotonicTime) override { refused_ = true; }
  void OnFinish(const FinishSample& sample, MonotonicTime now) override {
    sum_ += absl::ToDoubleSeconds(sample.latency);
    ++count_;
    in_flight_max_ = std::max(in_flight_max_, sample.in_flight + 1);
    if (now < next_) return;
    if (count_ >= 10) {
      Update(sum_ / count_, in_flight_max_, refused_);
      sum_ = 0;
      count_ = in_flight_max_ = 0;
      refused_ = false;
      next_ = now + absl::Seconds(1);
    }
  }
  int limit() const override { return static_cast<int>(estimate_); }
  std::string Explain() const override { return "a rival"; }

 protected:
  virtual void Update(double latency, int in_flight, bool refused) = 0;

  double estimate_ = kFirst;

 private:
  double sum_ = 0;
  int count_ = 0;
  int in_flight_max_ = 0;
  bool refused_ = false;
  MonotonicTime next_;
};

class AimdLimiter final : public WindowedLimiter {
 public:
  explicit AimdLimiter(absl::Duration timeout) : timeout_(absl::ToDoubleSeconds(timeout)) {}

 private:
  void Update(double latency, int in_flight, bool refused) override {
    if (refused || latency > timeout_) {
      estimate_ = std::max(1.0, std::floor(estimate_ * 0.9));
    } else if (2 * in_flight >= estimate_) {
      estimate_ = std::min(kMax, estimate_ + 1);
    }
  }

  const double timeout_;
};

class VegasLimiter final : public WindowedLimiter {
 private:
  void Update(double latency, int in_flight, bool refused) override {
    ++updates_;
    if (jitter_ * 30 * estimate_ <= updates_) {
      jitter_ = 0.5 + 0.5 * random_.Unit();
      updates_ = 0;
      lowest_ = latency;
      return;
    }
    if (lowest_ == 0 || latency < lowest_) {
      lowest_ = latency;
      return;
    }
    const double step = std::max(1.0, std::floor(std::log10(std::floor(estimate_))));
    const double queue = std::ceil(estimate_ * (1 - lowest_ / latency));
    if (refused) {
      estimate_ -= step;
    } else if (2 * in_flight < estimate_) {
      return;
    } else if (queue <= step) {
      estimate_ += 6 * step;
    } else if (queue < 3 * step) {
      estimate_ += step;
    } else if (queue > 6 * step) {
      estimate_ -= step;
    }
    estimate_ = std::clamp(estimate_, 1.0, kMax);
  }

  Random random_{1};
  double jitter_ = 0.75;
  int updates_ = 0;
  double lowest_ = 0;
};

class Gradient2Limiter final : public WindowedLimiter {
 private:
  static constexpr int kWarmUp = 10;
  static constexpr double kLongWindow = 600;
  static constexpr double kSmoothing = 0.2;
  static constexpr double kTolerance = 1.5;
  static constexpr double kQueue = 4;

  void Update(double latency, int in_flight, bool) override {
    if (updates_ < kWarmUp) {
      ++updates_;
      sum_ += latency;
      long_ = sum_ / updates_;
    } else {
      const double weight = 2 / (kLongWindow + 1);
      long_ += weight * (latency - long_);
    }
    if (long_ / latency > 2) long_ *= 0.95;
    if (in_flight < estimate_ / 2) return;
    const double gradient = std::clamp(kTolerance * long_ / latency, 0.5, 1.0);
    const double wanted = estimate_ * gradient + kQueue;
    estimate_ = std::clamp((1 - kSmoothing) * estimate_ + kSmoothing * wanted, 1.0, kMax);
  }

  int updates_ = 0;
  double sum_ = 0;
  double long_ = 0;
};

}  // namespace

std::unique_ptr<Limiter> NewAimdLimiter(absl::Duration timeout) {
  return std::make_unique<AimdLimiter>(timeout);
}
std::unique_ptr<Limiter> NewVegasLimiter() { return std::make_unique<VegasLimiter>(); }
std::unique_ptr<Limiter> NewGradient2Limiter() { return std::make_unique<Gradient2Limiter>(); }

}  // namespace nightshift
