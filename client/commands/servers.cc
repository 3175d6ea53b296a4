// coordinator, worker, sim-server: they print where they are, and run until a signal.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/health_server.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/units.h"
#include "client/cli/self.h"
#include "client/commands/backend_choice.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/sim_flags.h"
#include "client/commands/version.h"
#include "client/rpc/channel.h"
#include "client/sim/sim_server.h"
#include "coordinator/coordinator.h"
#include "worker/worker.h"

namespace nightshift {
namespace {

constexpr absl::Duration kCoordinatorGrace = absl::Seconds(5);
constexpr absl::Duration kIdleLook = absl::Milliseconds(200);

// Waits for the first signal; a second one is handed to `again`.
class ServerStop {
 public:
  ServerStop(CommandContext& context, std::function<void()> again) : context_(context) {
    context_.signals.SetHandlers(
        [this, again = std::move(again)](int signal, int count) {
          {
            MutexLock lock(&mutex_);
            if (signal_ == 0) signal_ = signal;
            changed_.SignalAll();
          }
          if (count > 1 && again) again();
        },
        nullptr);
  }
  ~ServerStop() { context_.signals.ClearHandlers(); }

  // From any thread: ends the wait without a signal.
  void End() {
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  // True when there is a reason to stop.
  bool WaitFor(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    if (signal_ == 0 && !ended_) changed_.WaitFor(&mutex_, timeout);
    return signal_ != 0 || ended_;
  }
  void Wait() {
    while (!WaitFor(absl::InfiniteDuration())) {
    }
  }

 private:
  CommandContext& context_;
  Mutex mutex_;
  CondVar changed_;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

Failure NotLoopback(const Settings& settings, const std::string& address) {
  const bool has_tokens = settings.Has("token-file");
  Failure failure = UsageFailure(
      absl::StrCat(address, " can be reached from other machines, and ",
                   has_tokens ? "nothing is encrypted: prompts, answers and the token would travel "
                                "in clear text"
                              : "anyone who reaches it may use it"),
      "give --token-file (nightshift token create makes one), --tls-cert and --tls-key; or listen "
      "on 127.0.0.1 (a tunnel reaches it), or say --insecure on a network you trust");
  failure.code = "not_loopback";
  return failure;
}

// False with the failure unless the address is one that this program may listen on.
// `guarded`: there are tokens and encryption.
bool MayListen(const Settings& settings, const char* flag, bool guarded, Failure* failure) {
  const std::string address = settings.Text(flag);
  std::string host;
  int port = 0;
  if (const absl::Status split = SplitAddress(address, &host, &port); !split.ok()) {
    *failure = UsageFailure(absl::StrCat("--", flag, ": ", split.message()));
    return false;
  }
  if (IsLoopbackHost(host) || guarded || settings.On("insecure")) return true;
  *failure = NotLoopback(settings, address);
  return false;
}

// Of WhyCannotListen.
Failure CannotListen(const absl::Status& why) {
  Failure failure = UsageFailure(std::string(why.message()));
  failure.code = absl::IsAlreadyExists(why) ? "address_taken" : "cannot_listen";
  return failure;
}

// /healthz, /readyz and /metrics of a worker. Null with the failure when a chosen address cannot be
// had; a default one that another server of this machine has is done without, since nobody asked
// for it.
struct Health {
  std::unique_ptr<HealthServer> server;
  std::string line;
};
bool StartHealth(const Settings& settings, std::function<absl::Status()> ready,
                 std::function<std::string()> metrics, Health* health, Failure* failure) {
  if (!MayListen(settings, "http", /*guarded=*/false, failure)) return false;
  absl::StatusOr<std::unique_ptr<HealthServer>> server =
      HealthServer::Start(settings.Text("http"), std::move(ready), std::move(metrics));
  if (server.ok()) {
    health->server = *std::move(server);
    health->line =
        absl::StrCat("http://", health->server->address(), "/healthz, /readyz, /metrics");
    return true;
  }
  if (!settings.Chosen("http")) {
    health->line =
        absl::IsAlreadyExists(server.status())
            ? absl::StrCat("none: ", settings.Text("http"), " is taken; --http names another")
            : absl::StrCat("none: ", server.status().message());
    return true;
  }
  *failure = CannotListen(server.status());
  return false;
}

// Workers of one data folder that each find a spool folder of their own there.
constexpr int kSpoolFoldersMax = 64;

void WarnOfSpoolsLeft(const std::vector<std::string>& folders) {
  for (const std::string& folder : Worker::SpoolFoldersLeft(folders)) {
    LogWarning(folder,
               " holds answers of a worker that does not run: a second worker started here, or one "
               "with --spool-dir ",
               folder, ", delivers them");
  }
}

// Where it was said, or in the first folder of the data folder that no other worker has, those that
// hold answers before the others. Null with the failure.
std::unique_ptr<Worker> StartWorker(const Settings& settings, WorkerOptions options,
                                    std::string* spool_dir, std::string* spool_line,
                                    Failure* failure) {
  const std::string chosen = settings.Text("spool-dir");
  const std::string folder =
      chosen.empty() ? absl::StrCat(settings.Text("data-dir"), "/spool") : chosen;
  if (chosen == "none") {
    LogWarning(
        "no spool: when this worker dies, the answers that the coordinator has not recorded are "
        "lost and their requests are called again");
  }
  absl::Status why;
  const std::vector<std::string> folders =
      chosen == "none" ? std::vector<std::string>{""}
                       : Worker::SpoolFoldersToTry(folder, chosen.empty() ? kSpoolFoldersMax : 1);
  for (const std::string& spool_folder : folders) {
    options.spool_dir = spool_folder;
    absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options);
    if (worker.ok()) {
      const int64_t left = (*worker)->left_before();
      *spool_dir = options.spool_dir;
      *spool_line = options.spool_dir.empty() ? "none" : options.spool_dir;
      if (left > 0) absl::StrAppend(spool_line, ": ", WithCommas(left), " answers were left there");
      if (chosen.empty()) WarnOfSpoolsLeft(folders);
      return *std::move(worker);
    }
    if (why.ok()) why = worker.status();
    if (!absl::IsFailedPrecondition(worker.status())) break;
  }
  *failure = FailureFrom(why);
  if (!absl::IsInvalidArgument(why)) {
    failure->exit = ExitCode::kInternal;
    failure->code = "spool_unusable";
    failure->hint = "--spool-dir DIR names another folder, --spool-dir none does without one";
  }
  return nullptr;
}

// What becomes of what a drain has left, a line each.
std::string LeftoversText(const Leftovers& left, const std::string& spool_dir) {
  std::string text;
  const std::string results =
      absl::StrCat(WithCommas(left.undelivered), left.undelivered == 1 ? " result" : " results");
  if (left.undelivered > 0 && left.spooled) {
    absl::StrAppend(&text, results, " could not be delivered: the answers wait in ", spool_dir,
                    ", and the next worker there delivers them.\n");
  } else if (left.undelivered > 0) {
    absl::StrAppend(&text, results, " could not be delivered",
                    spool_dir.empty() ? "" : absl::StrCat(" or written to ", spool_dir),
                    " and may be lost with this process: their requests are then called again.\n");
  }
  if (left.unanswered > 0 || left.undelivered == 0)
    absl::StrAppend(&text, "Handed back what was not answered; others will run it.\n");
  return text;
}

}  // namespace

int CoordinatorCommand(CommandContext& context) {
  const Settings& settings = context.settings;
  Console& console = context.console;
  CoordinatorOptions options;
  options.data_dir = settings.Text("data-dir");
  options.backup_dir = settings.Text("backup-dir");
  options.grpc_address = settings.Text("grpc");
  options.lease_ttl = settings.Span("lease-ttl");
  // A default address that another server of this machine has is done without, since nobody asked
  // for it.
  options.http_address = settings.Text("http");
  options.http_if_free = !settings.Chosen("http");
  Failure failure;
  const bool guarded = settings.Has("token-file") && settings.Has("tls-cert");
  if (!MayListen(settings, "grpc", guarded, &failure)) return console.Fail(failure);
  if (!MayListen(settings, "http", guarded, &failure)) return console.Fail(failure);
  if (options.lease_ttl < absl::Seconds(1))
    return console.Fail(UsageFailure("--lease-ttl: at least 1s: a worker reports once a second"));
  options.token_file = settings.Text("token-file");
  options.tls = {settings.Text("tls-cert"), settings.Text("tls-key"),
                 settings.Text("tls-client-ca")};
  options.tenant_open_jobs_max = settings.Int("tenant-jobs");
  options.tenant_file_bytes_max = settings.Size("tenant-bytes");
  options.tenant_requests_per_second = settings.Number("tenant-rate");
  console.Out(absl::StrCat("nightshift ", Version(), "\n"));

  ServerStop stop(context, nullptr);
  std::atomic<bool> broken{false};
  options.on_broken = [&](const absl::Status& status) {
    if (broken.exchange(true)) return;
    console.Say(absl::StrCat("error: the store can no longer be trusted: ", status.message(),
                             "\nhint: start the coordinator again; what was acknowledged is "
                             "safe\n"));
    stop.End();
  };
  const std::string data_dir = options.data_dir;
  const absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
      Coordinator::Start(std::move(options));
  if (!coordinator.ok()) {
    if (absl::IsUnauthenticated(coordinator.status())) {
      Failure unusable = UsageFailure(std::string(coordinator.status().message()),
                                      "nightshift token create --token-file FILE makes one");
      unusable.code = "token_file";
      return console.Fail(unusable);
    }
    if (absl::IsPermissionDenied(coordinator.status()) && settings.Has("tls-cert")) {
      Failure unusable = UsageFailure(std::string(coordinator.status().message()));
      unusable.code = "tls";
      return console.Fail(unusable);
    }
    // A store that cannot be opened has other codes.
    if (absl::IsAlreadyExists(coordinator.status()) ||
        absl::IsInvalidArgument(coordinator.status())) {
      return console.Fail(CannotListen(coordinator.status()));
    }
    return console.Fail(StoreFailure(coordinator.status()));
  }
  const int loaded = (*coordinator)->jobs_loaded();
  const int resumed = (*coordinator)->jobs_resumed();
  const std::string address = (*coordinator)->grpc_address();
  const std::string http = (*coordinator)->http_address();
  const std::string scheme = settings.Has("tls-cert") ? "https://" : "http://";
  console.Out(absl::StrCat(
      "  workers, clients  ", address, "\n  batch API         ",
      http.empty()
          ? absl::StrCat("none: ", settings.Text("http"), " is taken; --http names another")
          : absl::StrCat(scheme, http, "/v1"),
      "\n  health            ",
      http.empty() ? "none" : absl::StrCat(scheme, http, "/healthz, /readyz"),
      "\n  state             ", data_dir, ": ", loaded, loaded == 1 ? " job" : " jobs",
      resumed > 0 ? absl::StrCat(", ", resumed, " unfinished and resumed") : "", "\n"));
  console.Note(
      absl::StrCat("No worker is connected. Start one:\n  ", Self(), " worker",
                   address == "127.0.0.1:7440" ? "" : absl::StrCat(" --coordinator ", address),
                   " --backend http://127.0.0.1:8000/v1\n"));
  stop.Wait();
  if (broken) return static_cast<int>(ExitCode::kBrokenStore);
  console.Note("Stopping: committing what has arrived.\n");
  (*coordinator)->Shutdown(kCoordinatorGrace);
  return broken ? static_cast<int>(ExitCode::kBrokenStore) : 0;
}

int WorkerCommand(CommandContext& context) {
  const Settings& settings = context.settings;
  Console& console = context.console;
  WorkerOptions options;
  Failure failure;
  if (!ChooseBackends(settings, &options.backends, &failure)) return console.Fail(failure);
  const absl::StatusOr<std::string> token = ReadToken(settings);
  if (!token.ok()) return console.Fail(FailureFrom(token.status()));
  const absl::StatusOr<TlsFiles> tls = ReadTls(settings);
  if (!tls.ok()) return console.Fail(FailureFrom(tls.status()));
  EmbeddedSims sims;
  if (const absl::Status started = sims.Start(options.backends); !started.ok())
    return console.Fail(FailureFrom(started));
  std::atomic<bool> draining{false};
  Health health;
  const auto ready = [&draining] {
    return draining ? absl::UnavailableError("draining") : absl::OkStatus();
  };
  std::atomic<Worker*> measured{nullptr};
  const auto metrics = [&measured] {
    Worker* const worker = measured;
    return worker == nullptr ? std::string() : worker->MetricsText();
  };
  if (!StartHealth(settings, ready, metrics, &health, &failure)) return console.Fail(failure);
  const std::string address = settings.Text("coordinator");
  std::string backends;
  for (const BackendSpec& backend : options.backends)
    absl::StrAppend(&backends, backends.empty() ? "" : ", ", backend.name);
  options.name = settings.Text("name");
  options.measured = health.server != nullptr;
  options.channel = NewCoordinatorChannel(address, *tls);
  options.token = *token;
  options.levels_path = absl::StrCat(settings.Text("data-dir"), "/levels.json");
  // "auto" is no number and leaves 0, which means the same.
  (void)absl::SimpleAtoi(settings.Text("concurrency"), &options.concurrency);
  std::string spool_dir;
  std::string spool;
  const std::unique_ptr<Worker> started =
      StartWorker(settings, std::move(options), &spool_dir, &spool, &failure);
  if (started == nullptr) return console.Fail(failure);
  Worker& worker = *started;
  measured = &worker;
  console.Note(absl::StrCat("nightshift ", Version(), " worker\n  coordinator  ", address,
                            "\n  health       ", health.line, "\n  backends     ", backends,
                            "\n  spool        ", spool, "\n"));

  bool idle_end = false;
  {
    ServerStop stop(context, [&worker] { worker.Abort(); });
    if (settings.Has("exit-when-idle")) {
      const absl::Duration patience = settings.Span("exit-when-idle");
      while (!stop.WaitFor(kIdleLook)) {
        if (worker.IdleFor() >= patience) {
          idle_end = true;
          break;
        }
      }
    } else {
      stop.Wait();
    }
    draining = true;
    const absl::Duration grace = settings.Span("drain-timeout");
    const int in_flight = worker.in_flight();
    console.Note(idle_end
                     ? std::string("Nothing to do; ending.\n")
                     : absl::StrCat("Stopping: ", in_flight, in_flight == 1 ? " call" : " calls",
                                    " in flight, waiting up to ", HumanDuration(grace),
                                    ". Ctrl-C again drops them.\n"));
    if (!worker.Drain(grace)) console.Note(LeftoversText(worker.leftovers(), spool_dir));
  }
  // It asks the worker, which goes next.
  health.server.reset();
  return 0;
}

int SimServerCommand(CommandContext& context) {
  SimServerOptions options;
  if (const absl::Status parsed = ReadSimFlags(context.settings, &options); !parsed.ok())
    return context.console.Fail(UsageFailure(std::string(parsed.message())));
  absl::StatusOr<std::unique_ptr<SimServer>> server = SimServer::Start(options);
  if (!server.ok()) {
    Failure failure = UsageFailure(std::string(server.status().message()));
    failure.code = "cannot_listen";
    return context.console.Fail(failure);
  }
  ServerStop stop(context, nullptr);
  context.console.Out(absl::StrCat("listening on ", (*server)->url(), "\n"));
  stop.Wait();
  return 0;
}

}  // namespace nightshift
