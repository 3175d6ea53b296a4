// What the way of a request costs without the calls themselves: submitting, and leases down and
// results up through coordinator, store, runner and link, with a loop that answers at once.
//
//   rpc_bench [REQUESTS] [RESULT_BYTES] [tcp]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/rpc/channel.h"
#include "client/rpc/job_client.h"
#include "coordinator/coordinator.h"
#include "tests/storage/temp_folder.h"
#include "worker/core/runner.h"
#include "worker/link/coordinator_link.h"

namespace nightshift {
namespace {

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Stopwatch {
 public:
  void Print(const char* what, int requests) const {
    const double wall = absl::ToDoubleSeconds(Clock::Real().Now() - start_);
    const double cpu = CpuSeconds() - cpu_;
    std::printf("%-28s %9d requests %7.2f s  %8.0f requests/s  %6.2f us CPU each\n", what, requests,
                wall, requests / wall, cpu / requests * 1e6);
  }

 private:
  const MonotonicTime start_ = Clock::Real().Now();
  const double cpu_ = CpuSeconds();
};

// A worker whose calls are answered in the next round of its loop.
class InstantWorker final : public CallPort {
 public:
  InstantWorker(std::shared_ptr<grpc::Channel> channel, int limit, size_t result_bytes)
      : body_(absl::StrCat("{\"text\":\"", std::string(result_bytes, 'x'), "\"}")) {
    LinkOptions link_options;
    link_options.channel = std::move(channel);
    link_options.post = [this](std::function<void()> task) { Post(std::move(task)); };
    link_ = std::make_unique<CoordinatorLink>(std::move(link_options), clock_);
    RunnerOptions options;
    options.name = "instant";
    options.session = "instant";
    v1::BackendInfo info;
    info.set_name("b");
    info.set_kind("sim");
    info.set_state("ready");
    options.backends.push_back({info, NewFixedLimiter(limit)});
    runner_ = std::make_unique<Runner>(std::move(options), *this, *link_);
    link_->SetEvents({[this](MonotonicTime now) { runner_->OnLinkUp(now); },
                      [this](MonotonicTime now) { runner_->OnLinkDown(now); },
                      [this](v1::CoordinatorMessage&& message, MonotonicTime now) {
                        runner_->OnMessage(std::move(message), now);
                      },
                      [this](MonotonicTime now) { runner_->OnWritable(now); }});
    thread_ = std::thread([this] { Run(); });
  }
  ~InstantWorker() override {
    Post([this] { stop_ = true; });
    thread_.join();
    link_.reset();
  }

  void Start(CallRequest request) override {
    CallOutcome outcome;
    outcome.id = request.id;
    outcome.transport = Transport::kComplete;
    outcome.http_status = 200;
    outcome.body = body_;
    outcome.body_is_json = true;
    outcome.has_answer = true;
    outcomes_.push_back(std::move(outcome));
  }
  void Abort(CallId) override {}

 private:
  void Post(std::function<void()> task) {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    changed_.Signal();
  }
  void Run() {
    MonotonicTime due{0};
    while (!stop_) {
      std::deque<std::function<void()>> tasks;
      {
        MutexLock lock(&mutex_);
        while (tasks_.empty() && outcomes_.empty() && clock_.Now() < due) {
          changed_.WaitFor(&mutex_, due.infinite() ? absl::InfiniteDuration() : due - clock_.Now());
        }
        tasks.swap(tasks_);
      }
      for (auto& task : tasks) task();
      std::vector<CallOutcome> outcomes;
      outcomes.swap(outcomes_);
      for (CallOutcome& outcome : outcomes)
        runner_->OnCallFinished(std::move(outcome), clock_.Now());
      const MonotonicTime now = clock_.Now();
      due = std::min(runner_->OnTimer(now), link_->OnTimer(now));
    }
  }

  Clock& clock_ = Clock::Real();
  const std::string body_;
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<Runner> runner_;
  std::vector<CallOutcome> outcomes_;
  bool stop_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

std::string Submit(JobClient& client, int requests) {
  const auto stream = client.Submit({});
  const std::string prompt(220, 'p');
  for (int from = 0; from < requests; from += 1000) {
    v1::SubmitRequests message;
    for (int i = from; i < std::min(requests, from + 1000); ++i) {
      v1::SubmittedRequest& request = *message.add_requests();
      request.set_custom_id(absl::StrCat("request-", i));
      request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
      request.set_body(absl::StrCat(
          "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"", i, prompt, "\"}]}"));
      request.set_line(i + 1);
      request.set_model("m");
    }
    NIGHTSHIFT_CHECK(stream->Write(std::move(message)).ok(), "submit");
  }
  auto reply = stream->Seal({});
  NIGHTSHIFT_CHECK(reply.ok(), reply.status().ToString());
  return reply->job().id();
}

void Main(int requests, size_t result_bytes, bool tcp) {
  TempFolder folder;
  CoordinatorOptions options;
  options.data_dir = folder.path();
  if (tcp) options.grpc_address = "127.0.0.1:0";
  auto coordinator = Coordinator::Start(options);
  NIGHTSHIFT_CHECK(coordinator.ok(), coordinator.status().ToString());
  const auto channel = tcp ? NewCoordinatorChannel((*coordinator)->grpc_address())
                           : (*coordinator)->InProcessChannel();
  JobClient client(channel, "");

  std::string job;
  {
    Stopwatch watch;
    job = Submit(client, requests);
    watch.Print("submit", requests);
  }
  {
    Stopwatch watch;
    InstantWorker worker(tcp ? NewCoordinatorChannel((*coordinator)->grpc_address())
                             : (*coordinator)->InProcessChannel(),
                         /*limit=*/512, result_bytes);
    v1::WatchJobRequest request;
    request.set_job(job);
    request.set_interval_ms(500);
    const auto follow = client.Watch(request);
    for (;;) {
      auto status = follow->Next();
      NIGHTSHIFT_CHECK(status.ok(), status.status().ToString());
      if (!status->has_value()) break;
    }
    watch.Print("leases, results, commits", requests);
  }
  {
    Stopwatch watch;
    v1::ReadOutputRequest request;
    request.set_job(job);
    request.set_kind(v1::ReadOutputRequest::RESULTS);
    const auto output = client.ReadOutput(request);
    int64_t lines = 0;
    for (;;) {
      auto chunk = output->Next();
      NIGHTSHIFT_CHECK(chunk.ok(), chunk.status().ToString());
      if (!chunk->has_value()) break;
      lines += (**chunk).count();
    }
    NIGHTSHIFT_CHECK(lines == requests, absl::StrCat(lines, " lines"));
    watch.Print("read results", requests);
  }
  (*coordinator)->Shutdown(absl::Seconds(5));
}

}  // namespace
}  // namespace nightshift

int main(int argc, char** argv) {
  nightshift::Main(argc > 1 ? std::atoi(argv[1]) : 200'000,
                   argc > 2 ? static_cast<size_t>(std::atoi(argv[2])) : 800,
                   argc > 3 && std::string(argv[3]) == "tcp");
}
