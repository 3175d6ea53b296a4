// A fleet of idle workers for tests/bench/idle.py: the real worker core and its link, each on a
// connection of its own as from a machine of its own, on one thread together.
//
//   idle_workers COORDINATOR COUNT [ACCOUNT]
//
// With ACCOUNT all of them pace one backend on this account, so that each report is answered with
// a share. Prints a line when all have been welcomed, and runs until it is killed.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "proto/channel.h"
#include "worker/core/runner.h"
#include "worker/link/coordinator_link.h"

namespace nightshift {
namespace {

// They do not connect, and report, all at the same moment.
constexpr absl::Duration kConnectWithin = absl::Seconds(5);

class Fleet {
 public:
  Fleet(const std::string& coordinator, int count, const std::string& account) {
    for (int i = 0; i < count; ++i) {
      members_.push_back(std::make_unique<Member>(*this, i, coordinator, account));
      members_.back()->due = clock_.Now() + kConnectWithin * i / count;
      due_.emplace(members_.back()->due, i);
    }
  }

  void Run() {
    for (;;) {
      std::deque<Task> tasks;
      {
        MutexLock lock(&mutex_);
        while (tasks_.empty() && (due_.empty() || clock_.Now() < due_.begin()->first)) {
          changed_.WaitFor(&mutex_, due_.empty() ? absl::InfiniteDuration()
                                                 : due_.begin()->first - clock_.Now());
        }
        tasks.swap(tasks_);
      }
      for (Task& task : tasks) {
        task.run();
        Look(*members_[static_cast<size_t>(task.member)]);
      }
      while (!due_.empty() && due_.begin()->first <= clock_.Now()) {
        Look(*members_[static_cast<size_t>(due_.begin()->second)]);
      }
    }
  }

 private:
  struct Task {
    int member;
    std::function<void()> run;
  };

  class Member final : public CallPort {
   public:
    Member(Fleet& fleet, int index, const std::string& coordinator, const std::string& account)
        : number(index) {
      grpc::ChannelArguments arguments = CoordinatorChannelArguments();
      // Or all would share one connection.
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      LinkOptions link_options;
      link_options.channel =
          grpc::CreateCustomChannel(coordinator, grpc::InsecureChannelCredentials(), arguments);
      link_options.random_seed = static_cast<uint64_t>(index) + 1;
      link_options.post = [&fleet, index](std::function<void()> task) {
        fleet.Post({index, std::move(task)});
      };
      link = std::make_unique<CoordinatorLink>(std::move(link_options), Clock::Real());
      RunnerOptions options;
      options.name = absl::StrCat("idle-", index);
      options.session = absl::StrCat("idle-session-", index);
      options.version = "bench";
      RunnerBackend backend;
      backend.info.set_name("cerebras");
      backend.info.set_kind("cerebras");
      backend.info.set_url("http://127.0.0.1:1/v1");
      backend.info.set_state("ready");
      backend.info.add_models("a-model");
      backend.limiter = NewFillLimiter(32);
      backend.account = account;
      backend.pacer.tells_limits = !account.empty();
      options.backends.push_back(std::move(backend));
      runner = std::make_unique<Runner>(std::move(options), *this, *link);
      link->SetEvents({[this](MonotonicTime now) { runner->OnLinkUp(now); },
                       [this](MonotonicTime now) { runner->OnLinkDown(now); },
                       [this, &fleet](v1::CoordinatorMessage&& message, MonotonicTime now) {
                         if (message.has_welcome() && !welcomed) fleet.OnWelcome();
                         welcomed = welcomed || message.has_welcome();
                         runner->OnMessage(std::move(message), now);
                       },
                       [this](MonotonicTime now) { runner->OnWritable(now); }});
    }

    void Start(CallRequest) override {}  // there are no jobs
    void Abort(CallId) override {}

    const int number;
    std::unique_ptr<CoordinatorLink> link;
    std::unique_ptr<Runner> runner;
    bool welcomed = false;
    MonotonicTime due;
  };

  void Post(Task task) {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    changed_.Signal();
  }

  void Look(Member& member) {
    due_.erase({member.due, member.number});
    const MonotonicTime now = clock_.Now();
    member.due = std::min(member.runner->OnTimer(now), member.link->OnTimer(now));
    if (!member.due.infinite()) due_.emplace(member.due, member.number);
  }

  void OnWelcome() {
    if (++welcomed_ < members_.size()) return;
    std::printf("%zu workers are connected\n", members_.size());
    std::fflush(stdout);
  }

  Clock& clock_ = Clock::Real();
  std::vector<std::unique_ptr<Member>> members_;
  std::set<std::pair<MonotonicTime, int>> due_;
  size_t welcomed_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace nightshift

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "idle_workers COORDINATOR COUNT [ACCOUNT]\n");
    return 2;
  }
  nightshift::Fleet(argv[1], std::atoi(argv[2]), argc > 3 ? argv[3] : "").Run();
}
