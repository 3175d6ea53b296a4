#include "worker/worker.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread_name.h"
#include "worker/backends/http_backends.h"
#include "worker/core/runner.h"
#include "worker/core_dump.h"
#include "worker/http/metered_link.h"
#include "worker/http/worker_metrics.h"
#include "worker/level_file.h"
#include "worker/link/coordinator_link.h"
#include "worker/probe_loop.h"
#include "worker/spool/spool.h"
#include "worker/spool/spool_folders.h"

namespace nightshift {
namespace {

// After a drain, or at the end without one: how long the last messages may take to be written.
constexpr absl::Duration kCloseMax = absl::Seconds(2);

std::string DefaultName() {
  char host[256] = "worker";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, "-", getpid());
}

absl::Status CheckOptions(const WorkerOptions& options) {
  if (options.backends.empty()) {
    return absl::InvalidArgumentError("a worker needs at least one backend: --backend SPEC");
  }
  if (options.concurrency < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("concurrency must be at least 1, not ", options.concurrency));
  }
  absl::flat_hash_set<std::string> names;
  for (const BackendSpec& spec : options.backends) {
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two backends are called \"", spec.name, "\"; give one another name"));
    }
  }
  return absl::OkStatus();
}

// Cerebras charges a call without a maximum by this; what its headers show replaces it.
constexpr int64_t kCerebrasUnsetAnswer = 16384;

// What backends are remembered by.
std::string LevelName(const BackendSpec& spec) {
  return absl::StrCat(spec.kind, " ", spec.base_url);
}

// What tells the account from others. The key does not leave the worker: half of a SHA-256 does.
std::string AccountOf(const BackendSpec& spec) {
  const std::string text = absl::StrCat("nightshift account\n", spec.base_url, "\n", spec.api_key);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest) / 2));
}

PacerOptions PacerOptionsOf(const BackendSpec& spec) {
  PacerOptions options;
  options.configured = spec.rate_limits;
  options.tells_limits = spec.kind == "cerebras";
  if (options.tells_limits) options.unset_answer_tokens = kCerebrasUnsetAnswer;
  return options;
}

// Threads: the loop's, on which the runner and the link live; one per backend that probes; those of
// the callers. Between them are Post() and the few facts under `mutex_`.
class WorkerImpl final : public Worker {
 public:
  WorkerImpl(WorkerOptions options, std::unique_ptr<EventLoop> loop, std::unique_ptr<Spool> spool)
      : clock_(Clock::Real()),
        loop_(std::move(loop)),
        spool_(std::move(spool)),
        left_before_(spool_ == nullptr ? 0 : spool_->kept_for_others()),
        levels_path_(options.concurrency > 0 ? "" : options.levels_path) {
    Random random = Random::FromSystem();
    LinkOptions link_options;
    link_options.channel = options.channel;
    link_options.token = options.token;
    link_options.random_seed = random.Next();
    link_options.post = [this](std::function<void()> task) { loop_->Post(std::move(task)); };
    link_ = std::make_unique<CoordinatorLink>(std::move(link_options), clock_);

    RunnerOptions runner_options;
    runner_options.name = options.name.empty() ? DefaultName() : options.name;
    runner_options.session = absl::StrFormat("%016x%016x", random.Next(), random.Next());
    runner_options.version = NIGHTSHIFT_VERSION;
    runner_options.random_seed = random.Next();
    runner_options.spool = spool_.get();
    std::map<std::string, int> first_levels;
    if (!levels_path_.empty()) first_levels = ReadFirstLevels(levels_path_, clock_.WallNow());
    for (const BackendSpec& spec : options.backends) {
      level_names_.push_back(LevelName(spec));
      const auto known = first_levels.find(level_names_.back());
      const int first = known == first_levels.end() ? kFirstLimit : known->second;
      runner_options.backends.push_back(
          {InfoOf(spec),
           options.concurrency > 0 ? NewFixedLimiter(options.concurrency) : NewFillLimiter(first),
           PacerOptionsOf(spec), AccountOf(spec)});
    }
    LinkPort* link = link_.get();
    if (options.measured) {
      metered_link_ = std::make_unique<MeteredLink>(*link_, metrics_);
      link = metered_link_.get();
    }
    runner_ = std::make_unique<Runner>(std::move(runner_options), *loop_, *link);
    Connect();
    thread_ = std::thread([this] {
      NameThisThread("ns-loop");
      loop_->Run();
    });
    for (size_t i = 0; i < options.backends.size(); ++i) {
      probes_.push_back(
          std::make_unique<ProbeLoop>(options.backends[i], EventsOf(static_cast<int>(i))));
    }
  }

  ~WorkerImpl() override {
    for (auto& probe : probes_) probe->Stop();
    loop_->Post([this] {
      GiveUp();
      link_->Close([this] {
        MutexLock lock(&mutex_);
        closed_ = true;
        changed_.SignalAll();
      });
    });
    {
      const MonotonicTime give_up_at = clock_.Now() + kCloseMax;
      MutexLock lock(&mutex_);
      while (!closed_ && WaitLocked(give_up_at)) {
      }
    }
    probes_.clear();
    loop_->Stop();
    thread_.join();
    RememberLevels();
    link_.reset();  // waits until gRPC calls nothing here any more
  }

  bool Drain(absl::Duration grace) override {
    const MonotonicTime deadline = clock_.Now() + grace;
    loop_->Post([this] {
      runner_->Drain("the worker is shutting down", clock_.Now());
      MutexLock lock(&mutex_);
      // Idle or not is looked at again after this task, when `drained_` has a meaning.
      drained_ = true;
      idle_ = false;
      published_idle_ = false;
    });
    {
      MutexLock lock(&mutex_);
      while (!aborted_ && !(drained_ && idle_) && WaitLocked(deadline)) {
      }
      // What Abort gave up is not done, even if nothing is left of it by now.
      if (drained_ && idle_ && !aborted_) return true;
      if (!aborted_) unanswered_ = held_.load(std::memory_order_relaxed);
    }
    // Hands back the rest. An answer that is not acknowledged by the end of this waits in the
    // spool; without one it goes with the process, and its request is called again.
    loop_->Post([this] { GiveUp(); });
    const MonotonicTime give_up_at = clock_.Now() + kCloseMax;
    MutexLock lock(&mutex_);
    while (!(drained_ && idle_) && WaitLocked(give_up_at)) {
    }
    return false;
  }

  void Abort() override {
    {
      MutexLock lock(&mutex_);
      if (!aborted_) unanswered_ = held_.load(std::memory_order_relaxed);
      aborted_ = true;
      changed_.SignalAll();
    }
    loop_->Post([this] { GiveUp(); });
  }

  absl::Duration IdleFor() const override {
    MutexLock lock(&mutex_);
    return idle_ ? clock_.Now() - idle_since_ : absl::ZeroDuration();
  }

  int in_flight() const override { return in_flight_.load(std::memory_order_relaxed); }
  Leftovers leftovers() const override {
    Leftovers left;
    left.undelivered = undelivered_.load(std::memory_order_relaxed);
    left.spooled = spooled_.load(std::memory_order_relaxed);
    MutexLock lock(&mutex_);
    left.unanswered = unanswered_;
    return left;
  }
  int64_t left_before() const override { return left_before_; }
  std::string MetricsText() override { return metrics_.Render(); }

 private:
  // Hands back everything that has no answer: what waits, and what is being called.
  void GiveUp() {
    const MonotonicTime now = clock_.Now();
    runner_->Drain("the worker is shutting down", now);
    runner_->AbortAll(now);
  }

  // From the threads that ask the backends.
  ProbeLoop::Events EventsOf(int backend) {
    ProbeLoop::Events events;
    events.on_info = [this, backend](v1::BackendInfo info, bool native) {
      loop_->Post([this, backend, info = std::move(info), native] {
        // Before the runner hears that it is ready, since it may start calls at once.
        if (info.state() == "ready") loop_->SetDetected(backend, info.kind(), native);
        runner_->OnBackendInfo(backend, info, clock_.Now());
      });
    };
    events.on_key = [this, backend](const std::string& key) {
      loop_->Post([this, backend, key] {
        loop_->SetKey(backend, key);
        runner_->OnNewKey(backend, clock_.Now());
      });
    };
    events.on_load = [this, backend](v1::ServerLoad load) {
      loop_->Post(
          [this, backend, load = std::move(load)] { runner_->OnServerLoad(backend, load); });
    };
    return events;
  }

  void Connect() {
    link_->SetEvents({
        [this](MonotonicTime now) {
          metrics_.OnConnected(true);
          runner_->OnLinkUp(now);
        },
        [this](MonotonicTime now) {
          metrics_.OnConnected(false);
          runner_->OnLinkDown(now);
        },
        [this](v1::CoordinatorMessage&& message, MonotonicTime now) {
          runner_->OnMessage(std::move(message), now);
        },
        [this](MonotonicTime now) { runner_->OnWritable(now); },
    });
    loop_->SetOnFinished(
        [this](CallOutcome outcome) { runner_->OnCallFinished(std::move(outcome), clock_.Now()); });
    loop_->SetOnTimer([this] {
      const MonotonicTime now = clock_.Now();
      // Before the loop waits for anything, what this round has brought is in the kernel's hands.
      const MonotonicTime flush =
          spool_ == nullptr ? MonotonicTime::Infinite() : spool_->Flush(now);
      const MonotonicTime next = std::min(runner_->OnTimer(now), link_->OnTimer(now));
      // What the spool wants to be called for again is not written, or it lacks its next file.
      spooled_.store(spool_ != nullptr && flush.infinite(), std::memory_order_relaxed);
      Publish(now);
      return std::min(flush, next);
    });
  }

  // After the loop's thread has ended.
  void RememberLevels() const {
    if (levels_path_.empty()) return;
    std::map<std::string, int> levels;
    for (size_t i = 0; i < level_names_.size(); ++i) {
      const int level = runner_->settled_level(static_cast<int>(i));
      if (level > 0) levels[level_names_[i]] = level;
    }
    if (levels.empty()) return;
    const absl::Status written = WriteLevels(levels_path_, levels, clock_.WallNow());
    if (!written.ok()) {
      LogInfo("the levels of the backends are not remembered: ", written.message());
    }
  }

  // After each round of the loop: what other threads may know.
  void Publish(MonotonicTime now) {
    in_flight_.store(runner_->in_flight(), std::memory_order_relaxed);
    held_.store(runner_->held(), std::memory_order_relaxed);
    undelivered_.store(runner_->unacknowledged(), std::memory_order_relaxed);
    const bool idle = runner_->Idle();
    if (idle == published_idle_) return;
    published_idle_ = idle;
    MutexLock lock(&mutex_);
    idle_ = idle;
    idle_since_ = now;
    changed_.SignalAll();
  }

  // False when `until` has come.
  bool WaitLocked(MonotonicTime until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const MonotonicTime now = clock_.Now();
    if (now >= until) return false;
    changed_.WaitFor(&mutex_, until - now);
    return true;
  }

  Clock& clock_;
  WorkerMetrics metrics_;
  const std::unique_ptr<EventLoop> loop_;

  // The loop thread's.
  const std::unique_ptr<Spool> spool_;  // null: none
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<MeteredLink> metered_link_;  // null: nobody asks for figures
  std::unique_ptr<Runner> runner_;
  bool published_idle_ = false;

  const int64_t left_before_;
  const std::string levels_path_;
  std::vector<std::string> level_names_;  // by backend; set before any thread
  std::atomic<int> in_flight_{0};
  std::atomic<int64_t> held_{0};
  std::atomic<int64_t> undelivered_{0};
  std::atomic<bool> spooled_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime idle_since_ ABSL_GUARDED_BY(mutex_);
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;  // the runner knows that it is draining
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // what Abort or the last Drain gave up
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;     // the link has ended in order

  std::thread thread_;
  std::vector<std::unique_ptr<ProbeLoop>> probes_;
};

}  // namespace

std::vector<std::string> Worker::SpoolFoldersToTry(const std::string& first, int count) {
  return nightshift::SpoolFoldersToTry(first, count);
}

std::vector<std::string> Worker::SpoolFoldersLeft(const std::vector<std::string>& folders) {
  return nightshift::SpoolFoldersLeft(folders);
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const bool has_keys = std::any_of(options.backends.begin(), options.backends.end(),
                                    [](const BackendSpec& spec) { return !spec.api_key.empty(); });
  if (has_keys) KeepMemoryOutOfCoreDumps();
  EventLoop::Options loop_options;
  loop_options.backends = options.backends;
  ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop,
                   EventLoop::Create(std::move(loop_options), Clock::Real()));
  std::unique_ptr<Spool> spool;
  if (!options.spool_dir.empty()) {
    SpoolOptions spool_options;
    spool_options.folder = options.spool_dir;
    ASSIGN_OR_RETURN(spool, Spool::Open(std::move(spool_options)));
  }
  return std::make_unique<WorkerImpl>(std::move(options), std::move(loop), std::move(spool));
}

}  // namespace nightshift
