// The runner against a coordinator, a stream and a backend that do whatever the dice say, and
// deaths of its process, after which another one goes on with the same spool. Whatever happens,
// each leased request ends in exactly one way, and when the trouble is over all of them end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "tests/worker/core/fake_spool.h"
#include "tests/worker/core/runner_fixture.h"

namespace nightshift {
namespace {

constexpr int kRequests = 400;
constexpr int kSlots = 6;

// What the coordinator believes of a request. The model leases a request only when it believes it
// to be nobody's.
enum class Belief { kPending, kLeased, kDone, kCancelled };

// Watches that each call that started ends exactly once, and that the runner counts as it should.
class WatchedLimiter final : public Limiter {
 public:
  explicit WatchedLimiter(std::unique_ptr<Limiter> limiter) : limiter_(std::move(limiter)) {}

  void OnStart(MonotonicTime now) override {
    open_.insert(now.nanos);
    limiter_->OnStart(now);
  }
  void OnFinish(const FinishSample& sample, MonotonicTime now) override {
    End(now - sample.latency);
    EXPECT_EQ(sample.in_flight, static_cast<int>(open_.size()));
    limiter_->OnFinish(sample, now);
  }
  void OnReject(MonotonicTime started, int in_flight, MonotonicTime now) override {
    End(started);
    EXPECT_EQ(in_flight, static_cast<int>(open_.size()));
    limiter_->OnReject(started, in_flight, now);
  }
  void OnDrop(MonotonicTime started, MonotonicTime now) override {
    End(started);
    limiter_->OnDrop(started, now);
  }
  int limit() const override { return limiter_->limit(); }
  std::string Explain() const override { return limiter_->Explain(); }

  int open() const { return static_cast<int>(open_.size()); }

 private:
  void End(MonotonicTime started) {
    const auto found = open_.find(started.nanos);
    ASSERT_NE(found, open_.end()) << "a call ended that had not started then, or twice";
    open_.erase(found);
  }

  const std::unique_ptr<Limiter> limiter_;
  std::multiset<int64_t> open_;  // when they started
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), with_spool_(random_.Chance(0.7)) {
    MakeRunner();
    requests_.resize(kRequests);
  }

  void MakeRunner() {
    RunnerOptions options;
    options.name = "w";
    options.session = absl::StrCat("s", ++processes_);
    if (with_spool_) options.spool = &spool_;
    options.outbox_requests_max = 40;
    options.results_per_message_max = 7;
    options.random_seed = random_.Next();
    limiters_.clear();  // the last runner's
    for (const char* name : {"a", "b"}) {
      RunnerBackend backend;
      backend.info.set_name(name);
      backend.info.set_state("ready");
      auto limiter = std::make_unique<WatchedLimiter>(
          random_.Chance(0.5) ? NewFillLimiter(kSlots) : NewFixedLimiter(kSlots));
      limiters_.push_back(limiter.get());
      backend.limiter = std::move(limiter);
      options.backends.push_back(std::move(backend));
    }
    runner_ = std::make_unique<Runner>(std::move(options), calls_, link_);
  }

  void Trouble() {
    const uint64_t steps = 1000 + random_.Below(6000);
    for (uint64_t step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      Step(/*trouble=*/true);
      Check();
    }
  }

  // The worker is told to stop in the middle of it.
  void Stop() {
    runner_->Drain("stopping", Now());
    for (uint64_t step = random_.Below(500); step > 0 && !testing::Test::HasFailure(); --step) {
      Step(/*trouble=*/true);
      Check();
    }
    if (random_.Chance(0.7)) runner_->AbortAll(Now());
    for (int step = 0; step < 20'000 && !(runner_->Idle() && up_ && welcomed_); ++step) {
      Step(/*trouble=*/false);
      Check();
    }
    ExpectIdle();
    while (!link_.sent.empty()) ReadOne();
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_NE(requests_[i].belief, Belief::kLeased) << "nobody was told about request " << i;
    }
  }

  void Finish() {
    // The trouble is over: everything must end.
    for (int step = 0; step < 200'000 && !AllDone(); ++step) {
      Step(/*trouble=*/false);
      Check();
      if (testing::Test::HasFailure()) return;
    }
    for (int i = 0; i < kRequests; ++i) {
      const Belief belief = requests_[i].belief;
      EXPECT_TRUE(belief == Belief::kDone || belief == Belief::kCancelled)
          << "request " << i << " did not end: " << static_cast<int>(belief);
    }
    // Let the last acknowledgements and aborted calls through.
    for (int step = 0; step < 2000 && !runner_->Idle(); ++step) Step(/*trouble=*/false);
    ExpectIdle();
  }

 private:
  void ExpectIdle() const {
    EXPECT_TRUE(runner_->Idle()) << runner_->held() << " held, " << runner_->in_flight()
                                 << " in flight, " << runner_->unacknowledged()
                                 << " unacknowledged";
    for (const WatchedLimiter* limiter : limiters_) EXPECT_EQ(limiter->open(), 0);
  }

  struct Request {
    Belief belief = Belief::kPending;
    int recorded = 0;  // ends written down; the point of it all is that this is 1
  };

  MonotonicTime Now() const { return clock_.Now(); }

  void Step(bool trouble) {
    switch (random_.Below(trouble ? 13 : 8)) {
      case 0:
      case 1:
        FinishACall(trouble);
        break;
      case 2:
        if (up_) Read();
        break;
      case 3:
        if (up_ && welcomed_) Lease();
        break;
      case 4:
        clock_.Advance(absl::Milliseconds(static_cast<int64_t>(random_.Below(400))));
        runner_->OnTimer(Now());
        break;
      case 5:
        if (!up_) {
          up_ = true;
          welcomed_ = false;
          link_.sent.clear();
          runner_->OnLinkUp(Now());
        }
        break;
      case 6:
        if (up_) {
          link_.backlog = static_cast<int>(random_.Below(4));
          runner_->OnWritable(Now());
        }
        break;
      case 7:
        if (up_ && welcomed_) Acknowledge();
        break;
      case 8:
        if (random_.Chance(0.3)) LoseTheStream();
        break;
      case 9:
        if (up_ && welcomed_ && random_.Chance(0.2)) Revoke();
        break;
      case 10:
        if (random_.Chance(0.1)) {
          clock_.Advance(absl::Seconds(static_cast<int64_t>(random_.Below(70))));
          runner_->OnTimer(Now());
        }
        break;
      case 11:
        if (random_.Chance(0.2)) ChangeABackend();
        break;
      case 12:
        if (random_.Chance(0.02)) Die();
        break;
    }
    // It has noticed that it did not run, and gives the stream up.
    if (std::exchange(link_.reopened, 0) > 0) LoseTheStream();
    if (!trouble && !settled_) {
      spool_.blocked = false;
      for (int i = 0; i < 2; ++i) runner_->OnBackendInfo(i, Info(i, "ready"), Now());
      settled_ = true;
    }
  }

  void LoseTheStream() {
    if (!up_) return;
    up_ = false;
    link_.backlog = 0;
    // Some of what was sent has arrived, the rest is lost. Acknowledgements under way are lost.
    for (size_t keep = random_.Below(link_.sent.size() + 1); keep > 0; --keep) ReadOne();
    link_.sent.clear();
    to_acknowledge_.clear();
    runner_->OnLinkDown(Now());
    if (random_.Chance(0.3)) {
      // Gone for long enough: the coordinator takes its leases back.
      for (Request& request : requests_) {
        if (request.belief == Belief::kLeased) request.belief = Belief::kPending;
      }
      clock_.Advance(absl::Seconds(31));
    }
  }

  void Die() {
    LoseTheStream();
    up_ = false;
    calls_ = RecordingCalls();
    aborted_.clear();
    spool_.blocked = random_.Chance(0.2);
    MakeRunner();
  }

  void Read() {
    for (size_t n = random_.Below(link_.sent.size() + 1); n > 0 && !link_.sent.empty(); --n) {
      ReadOne();
    }
  }

  void ReadOne() {
    const v1::WorkerMessage message = std::move(link_.sent.front());
    link_.sent.pop_front();
    if (message.has_hello()) {
      OnHello(message.hello());
    }
    for (const v1::AttemptResult& result : message.results().results()) OnResult(result);
    for (const v1::RequestKey& key : message.returned().keys()) {
      Request& request = requests_[key.index()];
      if (request.belief == Belief::kLeased) request.belief = Belief::kPending;
    }
  }

  void OnHello(const v1::Hello& hello) {
    std::set<uint64_t> held;
    v1::CoordinatorMessage reply;
    reply.mutable_welcome()->set_lease_ttl_ms(30'000);
    reply.mutable_welcome()->set_store("store");
    for (const v1::HeldRequest& entry : hello.held()) {
      EXPECT_TRUE(held.insert(entry.key().index()).second) << "named twice";
      Request& request = requests_[entry.key().index()];
      if (request.belief == Belief::kDone || request.belief == Belief::kCancelled) {
        *reply.mutable_welcome()->add_drop() = entry.key();
      } else {
        request.belief = Belief::kLeased;
      }
    }
    for (int i = 0; i < kRequests; ++i) {
      if (requests_[i].belief == Belief::kLeased && !held.contains(i)) {
        requests_[i].belief = Belief::kPending;
      }
    }
    // A stream that breaks before the reply arrives welcomes nobody.
    if (!up_) return;
    welcomed_ = true;
    runner_->OnMessage(std::move(reply), Now());
  }

  void OnResult(const v1::AttemptResult& result) {
    EXPECT_GT(result.sequence(), 0u);
    Request& request = requests_[result.key().index()];
    to_acknowledge_.push_back(result.sequence());
    if (request.belief == Belief::kCancelled || request.belief == Belief::kDone) return;
    if (result.kind() == v1::AttemptResult::RETRY) {
      request.belief = Belief::kPending;
      return;
    }
    request.belief = Belief::kDone;
    ++request.recorded;
    EXPECT_EQ(request.recorded, 1);
  }

  void Acknowledge() {
    v1::CoordinatorMessage message;
    while (!to_acknowledge_.empty() && random_.Chance(0.9)) {
      message.mutable_acknowledge()->add_sequences(to_acknowledge_.front());
      to_acknowledge_.pop_front();
    }
    runner_->OnMessage(std::move(message), Now());
  }

  void Lease() {
    v1::CoordinatorMessage message;
    const uint64_t backend = random_.Below(25);
    message.mutable_lease()->set_backend(backend == 0 ? "nobody" : backend % 2 == 0 ? "a" : "b");
    const uint64_t first = random_.Below(kRequests);
    for (uint64_t i = 0; i < 5; ++i) {
      const uint64_t index = (first + i) % kRequests;
      if (requests_[index].belief != Belief::kPending) continue;
      requests_[index].belief = Belief::kLeased;
      v1::LeasedRequest& request = *message.mutable_lease()->add_requests();
      request.mutable_key()->set_job(1);
      request.mutable_key()->set_index(index);
      request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
      request.set_body(absl::StrCat(index));
    }
    runner_->OnMessage(std::move(message), Now());
  }

  void Revoke() {
    v1::CoordinatorMessage message;
    const uint64_t index = random_.Below(kRequests);
    Request& request = requests_[index];
    if (request.belief == Belief::kDone) return;
    request.belief = Belief::kCancelled;
    message.mutable_revoke()->add_keys()->set_index(index);
    message.mutable_revoke()->mutable_keys(0)->set_job(1);
    runner_->OnMessage(std::move(message), Now());
  }

  static v1::BackendInfo Info(int backend, const std::string& state) {
    v1::BackendInfo info;
    info.set_name(backend == 0 ? "a" : "b");
    info.set_state(state);
    return info;
  }

  void ChangeABackend() {
    const int backend = static_cast<int>(random_.Below(2));
    runner_->OnBackendInfo(backend, Info(backend, random_.Chance(0.4) ? "broken" : "ready"), Now());
  }

  void FinishACall(bool trouble) {
    if (calls_.started.empty()) return;
    const size_t which = random_.Below(calls_.started.size());
    const CallRequest call = calls_.started[which];
    calls_.started.erase(calls_.started.begin() + static_cast<int64_t>(which));
    CallOutcome outcome = Answer(call.id);
    if (IsAborted(call.id) && random_.Chance(0.8)) {
      outcome = Broken(call.id, Transport::kAborted);
    } else if (trouble) {
      switch (random_.Below(14)) {
        case 0:
          outcome = HttpError(call.id, 400, "no");
          break;
        case 1:
          outcome = HttpError(call.id, 500);
          break;
        case 2:
          outcome = HttpError(call.id, 429);
          outcome.retry_after = absl::Seconds(static_cast<int64_t>(random_.Below(90)));
          break;
        case 3:
          outcome = HttpError(call.id, 429, "", "token_quota_exceeded");
          outcome.retry_after = absl::Seconds(static_cast<int64_t>(random_.Below(9)));
          break;
        case 4:
          outcome = HttpError(call.id, 503, "Loading model");
          break;
        case 5:
          outcome = Broken(call.id, Transport::kConnectFailed);
          break;
        case 6:
          outcome = Broken(call.id, Transport::kStaleConnection);
          break;
        case 7:
          outcome = Broken(call.id, Transport::kReset);
          break;
        case 8:
          outcome = Broken(call.id, Transport::kTimeout);
          break;
        case 9:
          if (random_.Chance(0.1)) outcome = HttpError(call.id, 401);
          break;
        case 10:
          outcome = HttpError(call.id, 408);
          break;
        case 11:
          outcome = Broken(call.id, Transport::kAborted);
          break;
        default:
          break;
      }
    }
    runner_->OnCallFinished(std::move(outcome), Now());
  }

  bool IsAborted(CallId id) {
    aborted_.insert(calls_.aborted.begin(), calls_.aborted.end());
    calls_.aborted.clear();
    return aborted_.count(id) > 0;
  }

  void Check() {
    ASSERT_EQ(static_cast<size_t>(runner_->in_flight()), calls_.started.size())
        << "a call is lost or was counted twice";
    ASSERT_LE(runner_->unacknowledged(), 40 + 2 * 1024);
    for (const CallRequest& call : calls_.started) {
      if (IsAborted(call.id)) continue;
      for (const auto& [number, kept] : spool_.kept) {
        ASSERT_NE(absl::StrCat(kept.result.key().index()), call.body) << "called with an answer";
      }
    }
    std::map<std::string, int> in_flight;
    for (const CallRequest& call : calls_.started) {
      if (!IsAborted(call.id)) ++in_flight[call.body];
    }
    for (const auto& [body, count] : in_flight) {
      ASSERT_EQ(count, 1) << "request " << body << " is called twice at the same time";
    }
  }

  bool AllDone() const {
    for (const Request& request : requests_) {
      if (request.belief != Belief::kDone && request.belief != Belief::kCancelled) return false;
    }
    return true;
  }

  Random random_;
  const bool with_spool_;
  FakeSpool spool_;
  int processes_ = 0;
  FakeClock clock_;
  RecordingCalls calls_;
  RecordingLink link_;
  std::vector<WatchedLimiter*> limiters_;  // owned by the runner
  std::unique_ptr<Runner> runner_;
  std::vector<Request> requests_;
  std::set<CallId> aborted_;
  std::deque<uint64_t> to_acknowledge_;
  bool up_ = false;
  bool welcomed_ = false;
  bool settled_ = false;
};

// NIGHTSHIFT_TEST_SEED replays one world.
TEST(RunnerRandomTest, NoRequestIsLostOrEndedTwice) {
  SetLogLevel(LogLevel::kOff);  // thousands of broken backends
  const char* given = std::getenv("NIGHTSHIFT_TEST_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const uint64_t count = given != nullptr ? 1 : 150;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(absl::StrCat("NIGHTSHIFT_TEST_SEED=", seed));
    World world(seed);
    world.Trouble();
    if (HasFailure()) break;
    if (seed % 3 == 0) {
      world.Stop();
    } else {
      world.Finish();
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace nightshift
