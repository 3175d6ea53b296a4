#include "client/sim/gpu_runner.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace nightshift {
namespace {

// Generous: a loaded machine must not fail a test that means "it happens at all".
constexpr int kPatienceMs = 20000;

class EventFd {
 public:
  EventFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~EventFd() { close(fd_); }
  int get() const { return fd_; }
  bool Wait() {
    pollfd polled = {fd_, POLLIN, 0};
    if (poll(&polled, 1, kPatienceMs) <= 0) return false;
    eventfd_t ignored;
    return eventfd_read(fd_, &ignored) == 0;
  }

 private:
  const int fd_;
};

SimGpuOptions Quick() {
  SimGpuOptions options;
  options.slots = 4;
  options.step_base = absl::Microseconds(100);
  options.step_per_call = absl::Microseconds(10);
  return options;
}

TEST(GpuRunnerTest, FinishedCallWakesItsOwner) {
  GpuRunner runner(Quick(), 1, Clock::Real());
  EventFd event;
  const MonotonicTime begun = Clock::Real().Now();
  const auto call = runner.Submit(10, 20, /*every_token=*/false, event.get());
  ASSERT_TRUE(call.has_value());
  ASSERT_TRUE(event.Wait());
  EXPECT_TRUE(runner.Get(*call).finished);
  EXPECT_EQ(runner.Get(*call).generated, 20);
  EXPECT_GE(Clock::Real().Now() - begun, absl::Microseconds(20 * 110)) << "steps take real time";
  runner.Remove(*call);
  EXPECT_EQ(runner.GetGauges().generated_tokens, 20);
  EXPECT_EQ(runner.GetGauges().prompt_tokens, 10);
}

TEST(GpuRunnerTest, StreamIsToldOfEveryStep) {
  GpuRunner runner(Quick(), 1, Clock::Real());
  EventFd event;
  const auto call = runner.Submit(10, 2000, /*every_token=*/true, event.get());
  ASSERT_TRUE(call.has_value());
  ASSERT_TRUE(event.Wait());
  EXPECT_FALSE(runner.Get(*call).finished) << "the first token comes long before the last";
  EXPECT_GE(runner.Get(*call).generated, 1);
  runner.Remove(*call);
}

TEST(GpuRunnerTest, RemovedCallLeavesTheEngineToOthers) {
  SimGpuOptions options = Quick();
  options.slots = 1;
  GpuRunner runner(options, 1, Clock::Real());
  EventFd first;
  EventFd second;
  const auto endless = runner.Submit(10, 1000000000, false, first.get());
  const auto call = runner.Submit(10, 1, false, second.get());
  ASSERT_TRUE(endless.has_value() && call.has_value());
  EXPECT_EQ(runner.GetGauges().running + runner.GetGauges().waiting, 2);
  runner.Remove(*endless);
  EXPECT_TRUE(second.Wait());
  runner.Remove(*call);
}

TEST(GpuRunnerTest, FullQueueIsRefused) {
  SimGpuOptions options = Quick();
  options.slots = 1;
  options.queue_max = 0;
  GpuRunner runner(options, 1, Clock::Real());
  EventFd event;
  const auto call = runner.Submit(10, 1000000000, false, event.get());
  EXPECT_TRUE(call.has_value());
  EXPECT_FALSE(runner.Submit(10, 1, false, event.get()).has_value());
  runner.Remove(*call);
}

TEST(GpuRunnerTest, ManyThreadsShareTheEngine) {
  GpuRunner runner(Quick(), 1, Clock::Real());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&runner, t] {
      EventFd event;
      for (int i = 0; i < 20; ++i) {
        const auto call = runner.Submit(10, 5, t % 2 == 0, event.get());
        ASSERT_TRUE(call.has_value());
        while (!runner.Get(*call).finished) ASSERT_TRUE(event.Wait());
        runner.Remove(*call);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runner.GetGauges().generated_tokens, 8 * 20 * 5);
  EXPECT_EQ(runner.GetGauges().running, 0);
}

}  // namespace
}  // namespace nightshift
