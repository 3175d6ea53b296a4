#include "worker/core/limiter.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/core/limiter/fill_limiter.h"

namespace nightshift {
namespace {

class FixedLimiter final : public Limiter {
 public:
  explicit FixedLimiter(int limit) : limit_(limit) {
    NIGHTSHIFT_CHECK(limit >= 1, "a limit below 1 never calls");
  }
  void OnStart(MonotonicTime) override {}
  void OnFinish(const FinishSample&, MonotonicTime) override {}
  void OnReject(MonotonicTime, int, MonotonicTime) override {}
  void OnDrop(MonotonicTime, MonotonicTime) override {}
  int limit() const override { return limit_; }
  std::string Explain() const override { return absl::StrCat("fixed at ", limit_); }

 private:
  const int limit_;
};

}  // namespace

std::unique_ptr<Limiter> NewFixedLimiter(int limit) {
  return std::make_unique<FixedLimiter>(limit);
}

std::unique_ptr<Limiter> NewFillLimiter(int first) { return std::make_unique<FillLimiter>(first); }

}  // namespace nightshift
