// The parts beside the gRPC services that need no gRPC: who is on which stream, who is woken by a
// change, the pool.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/rpc/change_notifier.h"
#include "coordinator/rpc/task_pool.h"
#include "coordinator/rpc/worker_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using Offer = WorkerStream::Offer;
using MessageKind = v1::CoordinatorMessage::KindCase;

class FakeStream final : public WorkerStream {
 public:
  Offer Send(v1::CoordinatorMessage&& message, size_t, bool unless_full) override {
    MutexLock lock(&mutex_);
    if (cancelled_) return Offer::kClosed;
    if (unless_full && full_) return Offer::kFull;
    kinds_.push_back(message.kind_case());
    return Offer::kQueued;
  }
  Offer Room() const override {
    MutexLock lock(&mutex_);
    return cancelled_ ? Offer::kClosed : full_ ? Offer::kFull : Offer::kQueued;
  }
  void Cancel(absl::string_view) override {
    MutexLock lock(&mutex_);
    cancelled_ = true;
  }
  void FinishWhenWritten(absl::Status) override {
    MutexLock lock(&mutex_);
    finished_ = true;
  }
  absl::Duration WritingFor(MonotonicTime) const override {
    MutexLock lock(&mutex_);
    return writing_for_;
  }

  void SetFull(bool full) {
    MutexLock lock(&mutex_);
    full_ = full;
  }
  void SetWritingFor(absl::Duration d) {
    MutexLock lock(&mutex_);
    writing_for_ = d;
  }
  bool cancelled() const {
    MutexLock lock(&mutex_);
    return cancelled_;
  }
  bool finished() const {
    MutexLock lock(&mutex_);
    return finished_;
  }
  std::vector<MessageKind> kinds() const {
    MutexLock lock(&mutex_);
    return kinds_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<MessageKind> kinds_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration writing_for_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

v1::Hello HelloOf(const std::string& session) {
  v1::Hello hello;
  hello.set_protocol("nightshift.v1");
  hello.set_name(session);
  hello.set_session(session);
  v1::BackendInfo& backend = *hello.add_backends();
  backend.set_name("b");
  backend.set_state("ready");
  return hello;
}

v1::CoordinatorMessage LeaseMessage() {
  v1::CoordinatorMessage message;
  message.mutable_lease()->set_id(1);
  return message;
}

class WorkerStreamsTest : public ::testing::Test {
 protected:
  std::string StateOf(const std::string& session) {
    for (const v1::WorkerStatus& worker : dispatcher_.ListWorkers(clock_.Now())) {
      if (worker.session() == session) return worker.state();
    }
    return "unknown";
  }

  FakeClock clock_;
  Dispatcher dispatcher_{DispatcherOptions{}};
  std::vector<WorkerNumber> hellos_;
  WorkerStreams streams_{dispatcher_, clock_,
                         [this](WorkerNumber worker) { hellos_.push_back(worker); }};
};

TEST_F(WorkerStreamsTest, WelcomeIsTheFirstMessage) {
  auto stream = std::make_shared<FakeStream>();
  const auto worker = streams_.Open(HelloOf("s"), stream);
  ASSERT_TRUE(worker.ok()) << worker.status();
  v1::CoordinatorMessage lease = LeaseMessage();
  EXPECT_EQ(streams_.SendLease(*worker, streams_.opened(), std::move(lease), 10), Offer::kQueued);
  EXPECT_THAT(stream->kinds(), ElementsAre(MessageKind::kWelcome, MessageKind::kLease));
}

TEST_F(WorkerStreamsTest, EachHelloThatIsTakenInIsToldOnce) {
  const auto worker = streams_.Open(HelloOf("s"), std::make_shared<FakeStream>());
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(streams_.Open(HelloOf("s"), std::make_shared<FakeStream>()).ok());
  v1::Hello refused = HelloOf("t");
  refused.set_protocol("of another time");
  ASSERT_FALSE(streams_.Open(refused, std::make_shared<FakeStream>()).ok());
  EXPECT_THAT(hellos_, ElementsAre(*worker, *worker));
}

TEST_F(WorkerStreamsTest, LateEndOfAReplacedStreamIsNotTheWorkersEnd) {
  auto first = std::make_shared<FakeStream>();
  auto second = std::make_shared<FakeStream>();
  const auto worker = streams_.Open(HelloOf("s"), first);
  const auto again = streams_.Open(HelloOf("s"), second);
  ASSERT_TRUE(worker.ok() && again.ok());
  EXPECT_EQ(*worker, *again);
  EXPECT_TRUE(first->cancelled());
  streams_.Close(*worker, first.get());
  EXPECT_EQ(StateOf("s"), "connected");
  streams_.Close(*worker, second.get());
  EXPECT_NE(StateOf("s"), "connected");
}

TEST_F(WorkerStreamsTest, LateMessageOfAReplacedStreamIsNotHeard) {
  auto first = std::make_shared<FakeStream>();
  auto second = std::make_shared<FakeStream>();
  const auto worker = streams_.Open(HelloOf("s"), first);
  ASSERT_TRUE(worker.ok() && streams_.Open(HelloOf("s"), second).ok());
  streams_.Drain(*worker, first.get(), v1::Drain());
  EXPECT_EQ(StateOf("s"), "connected");
  streams_.Drain(*worker, second.get(), v1::Drain());
  EXPECT_EQ(StateOf("s"), "draining");
}

// What a lease planned before a Hello says may have been taken back by that Hello.
TEST_F(WorkerStreamsTest, LeasePlannedBeforeAStreamWasOpenedIsNotSentOnIt) {
  auto stream = std::make_shared<FakeStream>();
  const uint64_t planned_at = streams_.opened();
  const auto worker = streams_.Open(HelloOf("s"), stream);
  ASSERT_TRUE(worker.ok());
  v1::CoordinatorMessage lease = LeaseMessage();
  EXPECT_EQ(streams_.SendLease(*worker, planned_at, std::move(lease), 10), Offer::kClosed);
  EXPECT_EQ(streams_.LeaseRoom(*worker, planned_at), Offer::kClosed);
  EXPECT_EQ(streams_.LeaseRoom(*worker, streams_.opened()), Offer::kQueued);
}

TEST_F(WorkerStreamsTest, FullStreamTakesAcknowledgementsButNoLeases) {
  auto stream = std::make_shared<FakeStream>();
  const auto worker = streams_.Open(HelloOf("s"), stream);
  ASSERT_TRUE(worker.ok());
  stream->SetFull(true);
  v1::CoordinatorMessage lease = LeaseMessage();
  EXPECT_EQ(streams_.SendLease(*worker, streams_.opened(), std::move(lease), 10), Offer::kFull);
  Outgoing acknowledge;
  acknowledge.worker = *worker;
  acknowledge.message.mutable_acknowledge()->add_sequences(1);
  streams_.Send(acknowledge);
  EXPECT_THAT(stream->kinds(), ElementsAre(MessageKind::kWelcome, MessageKind::kAcknowledge));
}

TEST_F(WorkerStreamsTest, RefusedHelloOfAReconnectLeavesTheWorkerDisconnected) {
  auto first = std::make_shared<FakeStream>();
  ASSERT_TRUE(streams_.Open(HelloOf("s"), first).ok());
  v1::Hello other = HelloOf("s");
  other.set_protocol("nightshift.v9");
  EXPECT_FALSE(streams_.Open(other, std::make_shared<FakeStream>()).ok());
  EXPECT_NE(StateOf("s"), "connected");
}

TEST_F(WorkerStreamsTest, StalledStreamIsCancelled) {
  auto stalled = std::make_shared<FakeStream>();
  auto slow = std::make_shared<FakeStream>();
  ASSERT_TRUE(streams_.Open(HelloOf("stalled"), stalled).ok());
  ASSERT_TRUE(streams_.Open(HelloOf("slow"), slow).ok());
  stalled->SetWritingFor(kWriteStallMax + absl::Seconds(1));
  slow->SetWritingFor(kWriteStallMax - absl::Seconds(1));
  streams_.CancelStalled(clock_.Now());
  EXPECT_TRUE(stalled->cancelled());
  EXPECT_FALSE(slow->cancelled());
}

TEST_F(WorkerStreamsTest, AfterFinishAllNoStreamIsTakenIn) {
  auto stream = std::make_shared<FakeStream>();
  ASSERT_TRUE(streams_.Open(HelloOf("s"), stream).ok());
  streams_.FinishAll(absl::UnavailableError("bye"));
  EXPECT_TRUE(stream->finished());
  const auto late = streams_.Open(HelloOf("t"), std::make_shared<FakeStream>());
  EXPECT_TRUE(absl::IsUnavailable(late.status()));
}

// For ThreadSanitizer: reconnecting, reporting, granting and closing at once.
TEST_F(WorkerStreamsTest, ManyThreadsAtOnceAgreeInTheEnd) {
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this, i] {
      for (int round = 0; round < 200; ++round) {
        auto stream = std::make_shared<FakeStream>();
        const auto worker = streams_.Open(HelloOf(i == 0 ? "a" : "b"), stream);
        ASSERT_TRUE(worker.ok());
        streams_.Report(*worker, stream.get(), v1::Report());
        streams_.Close(*worker, stream.get());
      }
    });
  }
  std::thread sender([&] {
    while (!stop) {
      for (WorkerNumber worker = 1; worker < 4; ++worker) {
        v1::CoordinatorMessage lease = LeaseMessage();
        streams_.SendLease(worker, streams_.opened(), std::move(lease), 10);
      }
      streams_.CancelStalled(clock_.Now());
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  sender.join();
  EXPECT_NE(StateOf("a"), "connected");
  EXPECT_NE(StateOf("b"), "connected");
}

// --- ChangeNotifier ------------------------------------------------------------------------------

// Counts calls and lets a test wait for them.
class Bell {
 public:
  void Ring() {
    MutexLock lock(&mutex_);
    ++rings_;
    changed_.SignalAll();
  }
  void AwaitRings(int rings) {
    MutexLock lock(&mutex_);
    while (rings_ < rings) changed_.Wait(&mutex_);
  }
  int rings() const {
    MutexLock lock(&mutex_);
    return rings_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int rings_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ChangeNotifierTest : public ::testing::Test {
 protected:
  MonotonicTime Now() { return Clock::Real().Now(); }

  std::atomic<uint64_t> count_{1};
  ChangeNotifier notifier_{[this](JobNumber job) { return job == 7 ? count_.load() : 0; },
                           Clock::Real()};
};

TEST_F(ChangeNotifierTest, WaiterIsCalledOnceAfterAChange) {
  Bell bell;
  notifier_.Wait(7, 1, Now(), [&] { bell.Ring(); });
  notifier_.Wake();
  count_ = 2;
  notifier_.Wake();
  bell.AwaitRings(1);
  Bell second;
  count_ = 3;
  notifier_.Wait(7, 2, Now(), [&] { second.Ring(); });
  second.AwaitRings(1);
  EXPECT_EQ(bell.rings(), 1);
}

TEST_F(ChangeNotifierTest, ChangeBeforeTheWaitIsNotMissed) {
  Bell bell;
  count_ = 2;
  notifier_.Wake();
  notifier_.Wait(7, 1, Now(), [&] { bell.Ring(); });
  bell.AwaitRings(1);
}

TEST_F(ChangeNotifierTest, WaiterIsNotCalledBeforeItsTime) {
  Bell bell;
  const MonotonicTime not_before = Now() + absl::Milliseconds(60);
  MonotonicTime called_at;
  notifier_.Wait(7, 1, not_before, [&] {
    called_at = Now();
    bell.Ring();
  });
  count_ = 2;
  notifier_.Wake();
  bell.AwaitRings(1);
  EXPECT_GE(called_at, not_before);
}

TEST_F(ChangeNotifierTest, ShutdownCallsEveryoneAndTakesNoMore) {
  Bell bell;
  for (int i = 0; i < 3; ++i) notifier_.Wait(7, 1, Now(), [&] { bell.Ring(); });
  const ChangeNotifier::WaitId forgotten = notifier_.Wait(7, 1, Now(), [&] { bell.Ring(); });
  notifier_.Cancel(forgotten);
  notifier_.Shutdown();
  EXPECT_EQ(bell.rings(), 3);
  EXPECT_EQ(notifier_.Wait(7, 0, Now(), [&] { bell.Ring(); }), 0u);
  EXPECT_EQ(bell.rings(), 3);
}

// --- TaskPool ------------------------------------------------------------------------------------

TEST(TaskPoolTest, ShutdownRunsWhatIsQueuedAndWhatThatPosts) {
  std::atomic<int> ran{0};
  TaskPool pool(2);
  for (int i = 0; i < 100; ++i) {
    pool.Post([&] {
      ++ran;
      pool.Post([&] { ++ran; });
    });
  }
  pool.Shutdown();
  EXPECT_EQ(ran, 200);
}

}  // namespace
}  // namespace nightshift
