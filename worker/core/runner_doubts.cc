// Whose fault a failure was. A call that a backend answers with HTTP 500 may have failed by its
// request, which is then charged an attempt, or by a backend that has begun to fail everything,
// when no request should pay for it. At that moment nobody can know. So the failure waits: the next
// answer says that the backend works, the breaker's opening that it does not.
#include <utility>

#include "worker/core/runner_impl.h"

namespace nightshift {

void Runner::Impl::AddDoubt(HeldRequest* request, CallOutcome&& outcome, Classification&& what,
                            MonotonicTime now) {
  Backend& backend = backends[request->backend];
  request->place = HeldRequest::Place::kDoubted;
  backend.doubts.push_back({request, std::move(outcome), std::move(what), now});
  if (backend.doubts.size() > kDoubtsMax) JudgeFirstDoubt(backend, Verdict::kRetry);
}

void Runner::Impl::ChargeDoubts(Backend& backend, MonotonicTime ended_by) {
  while (!backend.doubts.empty() && backend.doubts.front().ended <= ended_by) {
    JudgeFirstDoubt(backend, Verdict::kRetry);
  }
}

void Runner::Impl::PardonDoubts(Backend& backend) {
  while (!backend.doubts.empty()) {
    if (pardons.size() >= kPardonedMax) pardons.clear();
    const bool pardoned = ++pardons[backend.doubts.front().request->key] <= kPardonsMax;
    JudgeFirstDoubt(backend, pardoned ? Verdict::kRetryFree : Verdict::kRetry);
  }
}

bool Runner::Impl::PardonsProbe(const RequestKey& key) {
  if (failed_probes.size() >= kPardonedMax) failed_probes.clear();
  if (++failed_probes[key] <= kFailedProbesMax) return true;
  failed_probes.erase(key);
  return false;
}

void Runner::Impl::JudgeFirstDoubt(Backend& backend, Verdict verdict) {
  Doubt doubt = std::move(backend.doubts.front());
  backend.doubts.pop_front();
  doubt.what.verdict = verdict;
  // Out of the list, it is nowhere: as a call that has ended.
  doubt.request->place = HeldRequest::Place::kInFlight;
  Record(doubt.request, std::move(doubt.outcome), std::move(doubt.what));
}

}  // namespace nightshift
