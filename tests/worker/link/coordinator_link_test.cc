// The link against a small server in the test's process, on the test's own loop and clock.
#include "worker/link/coordinator_link.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nightshift/v1/worker.grpc.pb.h"
#include "proto/channel.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;

// What a test waits for: everything here happens on gRPC's threads.
class Monitor {
 public:
  template <typename Condition>
  void Await(Condition condition) {
    MutexLock lock(&mutex);
    while (!condition()) changed.Wait(&mutex);
  }
  Mutex mutex;
  CondVar changed;
};

// Lets workers in, or not; keeps what they send; sends what it is told to.
class FakeCoordinator final : public v1::WorkerService::Service {
 public:
  grpc::Status Connect(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    int number = 0;
    {
      MutexLock lock(&monitor_.mutex);
      number = ++streams_;
      const auto token = context->client_metadata().find("authorization");
      token_ = token == context->client_metadata().end()
                   ? ""
                   : std::string(token->second.data(), token->second.size());
      monitor_.changed.SignalAll();
      if (!refuse_.ok()) return refuse_;
    }
    stream->SendInitialMetadata();
    while (stream->Read(&message)) {
      int replies = 0;
      {
        MutexLock lock(&monitor_.mutex);
        received_.push_back(message);
        // A stream that was cancelled may still have a message to read; what was ordered since is
        // its successor's.
        if (number == streams_) replies = std::exchange(replies_, 0);
        monitor_.changed.SignalAll();
      }
      for (int i = 0; i < replies; ++i) {
        v1::CoordinatorMessage reply;
        if (i == 0) {
          reply.mutable_welcome()->set_epoch(1);
        } else {
          reply.mutable_lease()->set_id(static_cast<uint64_t>(i));
        }
        if (!stream->Write(reply)) break;
      }
      if (message.has_drain()) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away");
    }
    MutexLock lock(&monitor_.mutex);
    ++closed_in_order_;
    monitor_.changed.SignalAll();
    return grpc::Status::OK;
  }

  void Refuse(grpc::Status status) {
    MutexLock lock(&monitor_.mutex);
    refuse_ = std::move(status);
  }
  // The next message on the newest stream is answered by a welcome and `count - 1` leases.
  void ReplyWith(int count) {
    MutexLock lock(&monitor_.mutex);
    replies_ = count;
  }
  void AwaitReceived(size_t count) {
    monitor_.Await([&] { return received_.size() >= count; });
  }
  size_t received() {
    MutexLock lock(&monitor_.mutex);
    return received_.size();
  }
  std::string token() {
    MutexLock lock(&monitor_.mutex);
    return token_;
  }
  int closed_in_order() {
    MutexLock lock(&monitor_.mutex);
    return closed_in_order_;
  }

 private:
  Monitor monitor_;
  // Guarded by monitor_.mutex.
  grpc::Status refuse_;
  int streams_ = 0;
  int replies_ = 0;
  int closed_in_order_ = 0;
  std::string token_;
  std::vector<v1::WorkerMessage> received_;
};

class CoordinatorLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(&coordinator_);
    SetCoordinatorServerArguments(builder, /*on_network=*/false);
    server_ = builder.BuildAndStart();
    MakeLink();
  }
  void TearDown() override {
    link_.reset();
    server_->Shutdown();
  }

  void MakeLink() {
    LinkOptions options;
    channel_ = NewInProcessChannel(server_.get());
    options.channel = channel_;
    options.token = "secret";
    options.random_seed = 1;
    options.post = [this](std::function<void()> task) {
      MutexLock lock(&loop_.mutex);
      tasks_.push_back(std::move(task));
      loop_.changed.SignalAll();
    };
    link_ = std::make_unique<CoordinatorLink>(std::move(options), clock_);
    link_->SetEvents({[this](MonotonicTime) { ++up_; }, [this](MonotonicTime) { ++down_; },
                      [this](v1::CoordinatorMessage&& message, MonotonicTime) {
                        messages_.push_back(std::move(message));
                      },
                      [this](MonotonicTime) { ++writable_; }});
  }

  // Runs the loop's tasks until the condition holds.
  template <typename Condition>
  void RunUntil(Condition condition) {
    while (!condition()) {
      std::function<void()> task;
      {
        MutexLock lock(&loop_.mutex);
        while (tasks_.empty()) loop_.changed.Wait(&loop_.mutex);
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }
  MonotonicTime Timer() { return link_->OnTimer(clock_.Now()); }
  size_t TasksWaiting() {
    MutexLock lock(&loop_.mutex);
    return tasks_.size();
  }

  static v1::WorkerMessage Message() {
    v1::WorkerMessage message;
    message.mutable_report();
    return message;
  }

  FakeClock clock_;
  FakeCoordinator coordinator_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<CoordinatorLink> link_;

  Monitor loop_;
  std::deque<std::function<void()>> tasks_;  // guarded by loop_.mutex

  int up_ = 0;
  int down_ = 0;
  int writable_ = 0;
  std::vector<v1::CoordinatorMessage> messages_;
};

TEST_F(CoordinatorLinkTest, ComesUpOnceLetInAndCarriesMessagesBothWays) {
  Timer();
  link_->Send(Message());  // nobody has let it in: lost, as the port says
  RunUntil([&] { return up_ == 1; });
  EXPECT_EQ(coordinator_.token(), "Bearer secret");
  coordinator_.ReplyWith(2);
  link_->Send(Message());
  RunUntil([&] { return messages_.size() == 2 && writable_ == 1; });
  EXPECT_TRUE(messages_[0].has_welcome());
  EXPECT_TRUE(messages_[1].has_lease());
  EXPECT_EQ(link_->Backlog(), 0);
  EXPECT_EQ(coordinator_.received(), 1u);
}

TEST_F(CoordinatorLinkTest, LostStreamIsOpenedAgainSoonButNotAtOnce) {
  Timer();
  RunUntil([&] { return up_ == 1; });
  v1::WorkerMessage message;
  message.mutable_drain();
  link_->Send(message);
  RunUntil([&] { return down_ == 1; });
  const MonotonicTime again = Timer();
  EXPECT_GE(again, clock_.Now() + kReconnectMin);
  EXPECT_LE(again, clock_.Now() + kReconnectMax);
  clock_.Advance(again - clock_.Now());
  Timer();
  RunUntil([&] { return up_ == 2; });
}

TEST_F(CoordinatorLinkTest, StreamIsReplacedWithoutDelayWhenAskedTo) {
  link_->Reopen();  // there is none yet
  Timer();
  RunUntil([&] { return up_ == 1; });
  link_->Reopen();
  RunUntil([&] { return down_ == 1; });
  EXPECT_EQ(Timer(), clock_.Now() + kReconnectMin);
  clock_.Advance(kReconnectMin);
  Timer();
  RunUntil([&] { return up_ == 2; });
}

TEST_F(CoordinatorLinkTest, RefusedWorkerIsNeverUpAndTriesSlowly) {
  coordinator_.Refuse(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no such token"));
  Timer();
  RunUntil([&] { return Timer() == clock_.Now() + kRefusedRetryAfter; });
  EXPECT_EQ(up_, 0);
  EXPECT_EQ(down_, 0);
  coordinator_.Refuse(grpc::Status::OK);
  clock_.Advance(kRefusedRetryAfter);
  Timer();
  RunUntil([&] { return up_ == 1; });
}

TEST_F(CoordinatorLinkTest, CoordinatorThatNeverWelcomesIsGivenUp) {
  const MonotonicTime give_up_at = Timer();
  EXPECT_EQ(give_up_at, clock_.Now() + kWelcomeMax);
  RunUntil([&] { return up_ == 1; });
  clock_.Advance(kWelcomeMax);
  Timer();
  RunUntil([&] { return down_ == 1; });
}

// A loop that is busy must not make what waits for it grow.
TEST_F(CoordinatorLinkTest, BusyLoopIsNotReadAhead) {
  Timer();
  RunUntil([&] { return up_ == 1; });
  coordinator_.ReplyWith(100);
  link_->Send(Message());
  // Besides messages only the end of the one write is posted.
  loop_.Await([&] { return tasks_.size() >= static_cast<size_t>(kInboundMessagesMax); });
  EXPECT_LE(TasksWaiting(), static_cast<size_t>(kInboundMessagesMax) + 1);
  RunUntil([&] { return messages_.size() == 100; });
}

TEST_F(CoordinatorLinkTest, CloseWritesWhatIsQueuedFirst) {
  Timer();
  RunUntil([&] { return up_ == 1; });
  for (int i = 0; i < 50; ++i) link_->Send(Message());
  bool closed = false;
  link_->Close([&] { closed = true; });
  RunUntil([&] { return closed; });
  EXPECT_EQ(coordinator_.received(), 50u);
  EXPECT_EQ(coordinator_.closed_in_order(), 1);
  EXPECT_EQ(down_, 1);
  EXPECT_EQ(Timer(), MonotonicTime::Infinite());
}

// With the last read under way, just over, and paused: the going must not wait for a loop that
// takes nothing any more.
TEST_F(CoordinatorLinkTest, GoesWithMessagesUntakenAndTheLoopStopped) {
  for (int i = 0; i < 400; ++i) {
    up_ = 0;
    Timer();
    RunUntil([&] { return up_ == 1; });
    coordinator_.ReplyWith(100);
    link_->Send(Message());
    const auto seen = static_cast<size_t>(1 + i % (kInboundMessagesMax + 1));
    loop_.Await([&] { return tasks_.size() >= seen; });
    link_.reset();
    {
      MutexLock lock(&loop_.mutex);
      tasks_.clear();
    }
    MakeLink();
  }
}

// A worker that ended dropped its channel's last reference on one of gRPC's own threads, where gRPC
// then aborts the process. It took many stops to be seen.
TEST_F(CoordinatorLinkTest, NothingOfGrpcHoldsTheChannelOnceTheLinkIsGone) {
  for (int i = 1; i <= 500; ++i) {
    Timer();
    RunUntil([&] { return up_ == i; });
    bool closed = false;
    link_->Close([&] { closed = true; });
    RunUntil([&] { return closed; });
    link_.reset();
    {
      MutexLock lock(&loop_.mutex);
      tasks_.clear();
    }
    ASSERT_EQ(channel_.use_count(), 1) << "after " << i << " links";
    MakeLink();
  }
}

}  // namespace
}  // namespace nightshift
