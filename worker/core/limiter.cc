// Additive increase, multiplicative decrease on refusals.
//
// A server that refuses tells the truth about its room; latency does not (with continuous batching
// every answer gets slower long before the server is full), so nothing here looks at time. One
// window is as many ended calls as the limit. In a window without a refusal, with the limit really
// in use, the limit grows by one. The first refusal halves it, and then nothing does until the
// calls that were in flight with the refused one have ended: they were sent under the old limit,
// and five refusals of one burst are one piece of news.
#include "worker/core/limiter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {
namespace {

constexpr int kStart = 32;
constexpr int kMin = 1;
constexpr int kMax = 1024;
// Of a window's calls, how many may have found nothing to follow them while the limit still counts
// as used: the short pauses between two leases.
constexpr double kStarvedShareMax = 0.1;

class FixedLimiter final : public Limiter {
 public:
  explicit FixedLimiter(int limit) : limit_(limit) {
    NIGHTSHIFT_CHECK(limit >= 1, "a limit below 1 never calls");
  }
  void OnStart(MonotonicTime) override {}
  void OnFinish(const FinishSample&, MonotonicTime) override {}
  void OnReject(int, MonotonicTime) override {}
  int limit() const override { return limit_; }
  std::string Explain() const override { return absl::StrCat("fixed at ", limit_); }

 private:
  const int limit_;
};

class AimdLimiter final : public Limiter {
 public:
  void OnStart(MonotonicTime) override {}

  void OnFinish(const FinishSample& sample, MonotonicTime) override {
    // Full or not is seen before this call ended, hence the one more.
    if (sample.starved || sample.in_flight + 1 < limit_) ++unused_;
    CountEnded();
  }

  void OnReject(int in_flight, MonotonicTime) override {
    ++rejections_;
    if (!refused_) {
      refused_ = true;
      limit_ = std::max(kMin, limit_ / 2);
      reason_ = absl::StrCat("halved after refusal ", rejections_);
      // The window ends when everything sent under the old limit has ended.
      ended_ = 0;
      window_ = std::max(limit_, in_flight);
      return;
    }
    CountEnded();
  }

  int limit() const override { return limit_; }
  std::string Explain() const override { return absl::StrCat(limit_, ", ", reason_); }

 private:
  void CountEnded() {
    if (++ended_ < window_) return;
    if (!refused_) {
      if (unused_ > kStarvedShareMax * window_) {
        reason_ = "not in use, so not raised";
      } else if (limit_ == kMax) {
        reason_ = "at its maximum";
      } else {
        ++limit_;
        reason_ = "raised: in use and nothing refused";
      }
    }
    refused_ = false;
    ended_ = unused_ = 0;
    window_ = limit_;
  }

  int limit_ = kStart;
  int window_ = kStart;  // ended calls that make a window
  int ended_ = 0;
  int unused_ = 0;        // of those, found free slots
  bool refused_ = false;  // in this window
  int64_t rejections_ = 0;
  std::string reason_ = "the start value";
};

}  // namespace

std::unique_ptr<Limiter> NewFixedLimiter(int limit) {
  return std::make_unique<FixedLimiter>(limit);
}

std::unique_ptr<Limiter> NewAimdLimiter() { return std::make_unique<AimdLimiter>(); }

}  // namespace nightshift
