// `nightshift run`: coordinator, worker and client in one process, joined by in-process channels.
// The steps are in RunSession::Run, in order; each may end the command with a failure.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/shell_quote.h"
#include "client/commands/backend_check.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/early_scan.h"
#include "client/commands/follow.h"
#include "client/commands/hand_in.h"
#include "client/commands/job_input.h"
#include "client/commands/job_options.h"
#include "client/commands/job_text.h"
#include "client/commands/outcome_text.h"
#include "client/commands/output_files.h"
#include "client/commands/results_ahead.h"
#include "client/commands/route_flags.h"
#include "client/commands/run_backends.h"
#include "client/commands/run_checks.h"
#include "client/commands/run_stop.h"
#include "client/input/file_hash.h"
#include "coordinator/coordinator.h"
#include "worker/worker.h"

namespace nightshift {
namespace {

constexpr absl::Duration kShutdownGrace = absl::Seconds(2);
// A larger input is announced before it is read, and read only as far as needed.
constexpr int64_t kLargeInputBytes = int64_t{16} << 20;
// Handing in so many takes long enough to be worth a line.
constexpr int64_t kManyRequests = 50'000;

class RunSession {
 public:
  explicit RunSession(CommandContext& context)
      : context_(context),
        settings_(context.settings),
        console_(context.console),
        name_(context.argument() == "-" ? "standard input" : std::string(context.argument())),
        stop_(context) {}

  int Run() {
    Failure failure;
    if (!Prepare(&failure)) return console_.Fail(failure);
    if (settings_.On("dry-run")) return DryRun();
    if (!ReadIdentity(&failure) || !OpenStore(&failure)) return console_.Fail(failure);
    absl::StatusOr<v1::JobStatus> found = client_->FindJob(token_);
    if (!found.ok() && !absl::IsNotFound(found.status()))
      return console_.Fail(FailureFrom(found.status()));
    if (!settings_.On("force") &&
        !MayWriteFiles(*client_, found.ok() ? found->id() : "", paths_, &failure))
      return console_.Fail(failure);
    if (found.ok()) {
      early_scan_.reset();
      job_ = *std::move(found);
      if (JobIsOver(job_) && job_.state() != v1::JOB_STATE_PAUSED) return RewriteFiles();
      if (!Resume(&failure)) return console_.Fail(failure);
    } else if (!Create(&failure)) {
      return console_.Fail(failure);
    }
    if (JobIsOver(job_)) return Finish();  // a spent budget, or nothing but bad lines
    return Work();
  }

 private:
  // Flags and paths: everything that can be wrong without looking at the input.
  bool Prepare(Failure* failure) {
    absl::StatusOr<InputOptions> input =
        MakeInputOptions(settings_, std::string(context_.argument()));
    if (!input.ok()) return Refuse(input.status(), failure);
    input_ = *std::move(input);
    absl::StatusOr<OutputPaths> paths = ChooseOutputPaths(settings_, input_.path);
    if (!paths.ok()) return Refuse(paths.status(), failure);
    paths_ = *std::move(paths);
    if (console_.json() && (paths_.results == "-" || paths_.errors == "-")) {
      *failure = UsageFailure("--json and -o - would mix two kinds of lines on standard output");
      return false;
    }
    have_backends_ = ChooseBackends(settings_, &specs_, &backend_failure_);
    simulated_ = have_backends_ && std::all_of(specs_.begin(), specs_.end(),
                                               [](const auto& spec) { return spec.kind == "sim"; });
    for (const BackendSpec& spec : specs_) backend_names_.push_back(spec.name);
    v1::JobOptions with_route;
    if (!SetRoute(&with_route, failure)) return false;
    if (settings_.On("dry-run")) return true;
    // A job that is complete needs no backend, so a missing key can wait until one is needed; but
    // where no job can be, say it now.
    if (!have_backends_ && !HasStore(settings_.Text("data-dir"))) {
      *failure = backend_failure_;
      return false;
    }
    if (const absl::Status writable = CheckWritable(paths_); !writable.ok()) {
      *failure = FailureFrom(writable);
      // Before the first call, so nothing is lost yet: a matter of the command line.
      failure->exit = ExitCode::kUsage;
      failure->code = "output_unwritable";
      return false;
    }
    return true;
  }

  int DryRun() {
    const absl::StatusOr<InputScan> scan = ScanInput(input_, /*count_answers=*/true);
    if (!scan.ok()) return console_.Fail(InputFailure(scan.status()));
    if (scan->bad_count > 0 && !settings_.On("skip-bad-lines"))
      return console_.Fail(RefusedInput(name_, scan->requests, scan->bad_count, scan->bad_lines));
    for (const std::string& warning : scan->warnings)
      console_.Note(absl::StrCat("warning: ", warning, "\n"));
    console_.Out(console_.json() ? DryRunJson(name_, *scan, specs_)
                                 : DryRunText(name_, *scan, specs_));
    return 0;
  }

  // What the input is: the same content and options again are the same job.
  bool ReadIdentity(Failure* failure) {
    if (NeedsSpooling(input_.path)) {
      absl::StatusOr<std::string> spooled = SpoolInput(input_.path);
      if (!spooled.ok()) return Refuse(spooled.status(), failure);
      input_.path = *std::move(spooled);
    }
    std::error_code error;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(input_.path, error));
    if (!error && size > kLargeInputBytes) {
      console_.Note(absl::StrCat("Reading  ", name_, " (", HumanSize(size), ")\n"));
      early_scan_.emplace(input_);
    } else if (!Scan(failure)) {
      return false;
    }
    const absl::StatusOr<std::string> hash = HashFile(input_.path);
    if (!hash.ok()) {
      *failure = InputFailure(hash.status());
      return false;
    }
    content_hash_ = *hash;
    token_ = JobToken(settings_, content_hash_, input_);
    return true;
  }

  // Checks and counts the whole input, once.
  bool Scan(Failure* failure) {
    if (scan_.has_value()) return true;
    absl::StatusOr<InputScan> scan =
        early_scan_.has_value() ? early_scan_->Take() : ScanInput(input_, /*count_answers=*/false);
    early_scan_.reset();
    if (!scan.ok()) return Refuse(scan.status(), failure);
    if (scan->bad_count > 0 && !settings_.On("skip-bad-lines")) {
      *failure = RefusedInput(name_, scan->requests, scan->bad_count, scan->bad_lines);
      return false;
    }
    console_.Note(absl::StrCat("Input    ", InputLine(name_, *scan), "\n"));
    for (const std::string& warning : scan->warnings)
      console_.Note(absl::StrCat("warning: ", warning, "\n"));
    scan_ = *std::move(scan);
    return true;
  }

  bool OpenStore(Failure* failure) {
    CoordinatorOptions options;
    options.data_dir = settings_.Text("data-dir");
    // So that `status`, `results` and the others work while this runs.
    options.grpc_address = SocketAddress(options.data_dir);
    options.reclaim_grace = absl::ZeroDuration();
    options.on_broken = [this](const absl::Status& status) { stop_.StoreBroken(status); };
    absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(options);
    if (absl::IsInvalidArgument(coordinator.status()) && !options.grpc_address.empty()) {
      // Not every file system has sockets; the run itself needs none.
      options.grpc_address.clear();
      coordinator = Coordinator::Start(options);
      if (coordinator.ok()) {
        console_.Note(
            absl::StrCat("warning: no socket can be made in ", options.data_dir,
                         ": status and the other commands work when this run has ended\n"));
      }
    }
    if (!coordinator.ok()) {
      *failure = StoreFailure(coordinator.status());
      return false;
    }
    coordinator_ = *std::move(coordinator);
    client_ = std::make_unique<JobClient>(coordinator_->InProcessChannel(), "");
    return true;
  }

  // All is done already: the files again, and not one call.
  int RewriteFiles() {
    const int64_t done = DoneCount(job_.counts());
    console_.Note(absl::StrCat(
        job_.state() == v1::JOB_STATE_COMPLETED ? "Already complete: " : "Already ended: ",
        WithCommas(done), " of ", WithCommas(job_.counts().total()),
        ". Files written again, no request sent.\n"));
    SayKeptOptions();
    done_before_ = done;
    return Finish();
  }

  void SayKeptOptions() {
    v1::JobOptions now = MakeJobOptions(settings_, name_);
    // Checked at the beginning.
    (void)ReadRoute(settings_, backend_names_, &now);
    const std::string text = KeptOptionsText(settings_, job_.options(), now,
                                             /*ended=*/job_.finished_at_ms() != 0);
    if (!text.empty()) console_.Note(text);
  }

  bool Resume(Failure* failure) {
    done_before_ = DoneCount(job_.counts());
    console_.Note(absl::StrCat("Resuming ", job_.id(), " from ",
                               ClockText(absl::FromUnixMillis(job_.created_at_ms()), absl::Now()),
                               ": ", WithCommas(done_before_), " of ",
                               WithCommas(job_.counts().total()), " done, ",
                               WithCommas(job_.counts().total() - done_before_), " to go.\n"));
    SayKeptOptions();
    v1::ControlJobRequest request;
    request.set_job(job_.id());
    request.set_action(v1::ControlJobRequest::RESUME);
    // Budgets that are given now are the job's from now on.
    request.set_budget_usd(settings_.Number("budget-usd"));
    request.set_budget_tokens(settings_.Int("budget-tokens"));
    if (job_.state() == v1::JOB_STATE_PAUSED || request.budget_usd() > 0 ||
        request.budget_tokens() > 0) {
      absl::StatusOr<v1::JobStatus> resumed = client_->Control(request);
      if (resumed.ok())
        job_ = *std::move(resumed);
      else
        console_.Note(absl::StrCat(resumed.status().message(), "\n"));
    }
    // A budget that is still spent; what is there is written all the same.
    return JobIsOver(job_) || ReadyBackends(failure);
  }

  bool Create(Failure* failure) {
    if (!Scan(failure)) return false;
    if (!ReadyBackends(failure)) return false;
    std::string default_model;
    if (!ChooseModel(backends_->checked(), scan_->models, &default_model, failure)) return false;
    if (!default_model.empty()) input_.request.model = default_model;

    if (scan_->requests >= kManyRequests)
      console_.Note(absl::StrCat("Storing  the requests in ", settings_.Text("data-dir"), "\n"));
    HandInOptions options;
    options.job = MakeJobOptions(settings_, name_);
    options.job.set_output_path(paths_.results);
    if (!SetRoute(&options.job, failure)) return false;
    options.job.set_errors_path(paths_.errors);
    options.skip_bad_lines = settings_.On("skip-bad-lines");
    options.token = token_;
    options.content_hash = content_hash_;
    bool input_failed = false;
    absl::StatusOr<HandInResult> handed = HandIn(*client_, input_, options, &input_failed);
    if (!handed.ok()) {
      *failure = input_failed ? InputFailure(handed.status()) : FailureFrom(handed.status());
      return false;
    }
    v1::SubmitReply& reply = handed->reply;
    if (reply.result() == v1::SubmitReply::REFUSED) {
      *failure = RefusedInput(name_, reply.requests() - reply.bad_count(), reply.bad_count(),
                              {reply.bad_lines().begin(), reply.bad_lines().end()});
      return false;
    }
    job_ = std::move(*reply.mutable_job());
    done_before_ = DoneCount(job_.counts());
    return true;
  }

  // False with the failure when the options name no route that there is.
  bool SetRoute(v1::JobOptions* options, Failure* failure) const {
    const absl::Status read = ReadRoute(settings_, backend_names_, options);
    if (!read.ok()) *failure = UsageFailure(std::string(read.message()));
    return read.ok();
  }

  bool ReadyBackends(Failure* failure) {
    if (!have_backends_) {
      *failure = backend_failure_;
      return false;
    }
    backends_ = std::make_unique<RunBackends>(std::move(specs_));
    return backends_->Ready(settings_, console_, failure);
  }

  int Work() {
    WorkerOptions options;
    options.backends = backends_->specs();
    options.channel = coordinator_->InProcessChannel();
    options.levels_path = absl::StrCat(settings_.Text("data-dir"), "/levels.json");
    // "auto" is no number and leaves 0, which means the same.
    (void)absl::SimpleAtoi(settings_.Text("concurrency"), &options.concurrency);
    absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(std::move(options));
    if (!worker.ok()) return console_.Fail(FailureFrom(worker.status()));
    worker_ = *std::move(worker);
    console_.Note(absl::StrCat("State    ", settings_.Text("data-dir"),
                               " (stop with Ctrl-C at any time, run again to resume)\n"));
    WriteAhead();
    const MonotonicTime started = Clock::Real().Now();
    FollowResult followed;
    {
      JobProgress progress(context_);
      stop_.EnterWork(worker_.get(), [&progress] { progress.PrintNow(); });
      FollowOptions follow;
      follow.job = job_.id();
      followed = Follow(*client_, follow, console_, progress, stop_.stop());
      if (followed.end == FollowResult::End::kOver)
        progress.Update(followed.job, "writing results");
      if (followed.end == FollowResult::End::kStopped) {
        // A store that is broken acknowledges nothing: there is nothing to wait for.
        worker_->Drain(stop_.broken() ? absl::ZeroDuration() : RunStop::DrainGrace(stop_.signal()));
        unsaved_ = worker_->leftovers().undelivered;
      }
      stop_.LeaveWork();
    }
    elapsed_ = Clock::Real().Now() - started;
    if (!followed.job.id().empty()) job_ = followed.job;
    if (followed.end == FollowResult::End::kFailed)
      return End(console_.Fail(FailureFrom(followed.status)));
    if (stop_.broken()) return End(static_cast<int>(ExitCode::kInternal));
    if (stop_.signal() != 0) {
      if (absl::StatusOr<v1::JobStatus> now = client_->GetJob(job_.id()); now.ok())
        job_ = *std::move(now);
      if (!JobIsOver(job_)) return Stopped();
    }
    return Finish();
  }

  // The results file grows while the job runs; what goes wrong with it is told at the end, when it
  // is tried again.
  void WriteAhead() {
    if (IsSpecialFile(paths_.results)) return;
    absl::StatusOr<std::unique_ptr<LineSink>> file = LineSink::Open(paths_.results);
    if (!file.ok()) return;
    ahead_ = std::make_unique<ResultsAhead>(*client_, job_.id(), paths_.results, *std::move(file));
  }

  // By a budget or its error rate: over for this command, but not ended.
  bool JobIsPaused() const { return job_.state() == v1::JOB_STATE_PAUSED; }

  // What is true of the answers so far.
  std::string SavedText() const {
    if (unsaved_ == 0) return "All answers so far are saved.";
    const bool disk = job_.reason() == v1::PAUSE_REASON_DISK;
    return absl::StrCat(WithCommas(unsaved_), unsaved_ == 1 ? " result" : " results",
                        " could not be saved", disk ? " (the disk is nearly full)" : "",
                        "; their requests will be called again.");
  }

  int Stopped() {
    const int code = static_cast<int>(ExitCodeOfSignal(stop_.signal()));
    console_.Say(absl::StrCat("Stopped: ", WithCommas(DoneCount(job_.counts())), " of ",
                              WithCommas(job_.counts().total()), " done, ",
                              WithCommas(job_.counts().failed()), " failed. ", SavedText(), "\n",
                              stop_.ResumeText()));
    if (console_.json()) console_.Out(ResultLine(Outcome(), code));
    return End(code);
  }

  // The job is over: its files, then the summary.
  int Finish() {
    stop_.EnterFiles();
    ErrorExamples examples(job_);
    for (const std::string& path : {paths_.results, paths_.errors}) {
      if (settings_.On("force") || MayReplace(job_.id(), path)) continue;
      Failure failure;
      failure.code = "output_exists";
      failure.message =
          absl::StrCat(ShortPath(path), " was written by something else while this job ran");
      failure.hint =
          "all answers are saved; the same command with another -o or --errors writes the files, "
          "with --force it replaces this one";
      return End(console_.Fail(failure));
    }
    if (JobIsPaused()) ahead_.reset();
    absl::StatusOr<WrittenFiles> written = WriteOutputs(
        *client_, job_, paths_, std::move(ahead_), [this] { return stop_.signal() != 0; },
        [&examples](const std::string& lines) { examples.Look(lines); });
    if (!written.ok()) {
      if (stop_.signal() != 0) {
        console_.Say(
            absl::StrCat("Stopped: all is answered and saved, not all of the files are written.\n",
                         stop_.ResumeText()));
        return End(static_cast<int>(ExitCodeOfSignal(stop_.signal())));
      }
      if (absl::IsCancelled(written.status())) return End(static_cast<int>(ExitCodeOf(job_)));
      Failure failure = FailureFrom(written.status());
      failure.exit = ExitCode::kInternal;
      failure.code = "output";
      failure.hint = "all answers are saved; the same command again writes the files";
      return End(console_.Fail(failure));
    }
    OutcomeText outcome = Outcome();
    outcome.paths = paths_;
    outcome.written = *written;
    outcome.examples = &examples;
    const int code = static_cast<int>(ExitCodeOf(job_));
    if (console_.json())
      console_.Out(ResultLine(outcome, code));
    else
      console_.Note(Render(outcome));
    return End(code);
  }

  OutcomeText Outcome() const {
    OutcomeText outcome;
    outcome.job = job_;
    outcome.elapsed = elapsed_;
    outcome.done_before = done_before_;
    outcome.folder = true;
    outcome.simulated = simulated_;
    outcome.flags = FolderFlags(settings_);
    return outcome;
  }

  // Everything in the order in which it may go.
  int End(int code) {
    worker_.reset();
    ahead_.reset();
    client_.reset();
    if (coordinator_ != nullptr) coordinator_->Shutdown(kShutdownGrace);
    stop_.Ended();
    return stop_.broken() ? static_cast<int>(ExitCode::kInternal) : code;
  }

  bool Refuse(const absl::Status& status, Failure* failure) {
    *failure = InputFailure(status);
    return false;
  }

  // What is wrong with the input, under the name that the person gave.
  Failure InputFailure(const absl::Status& status) {
    Failure failure = UsageFailure(SayName(std::string(status.message())));
    failure.code = "refused_input";
    return failure;
  }
  std::string SayName(std::string message) const {
    // Nothing stands there before the options were read.
    const size_t at = input_.path.empty() ? std::string::npos : message.find(input_.path);
    if (context_.argument() != input_.path && at != std::string::npos)
      message.replace(at, input_.path.size(), name_);
    return message;
  }

  CommandContext& context_;
  const Settings& settings_;
  Console& console_;
  const std::string name_;
  InputOptions input_;
  OutputPaths paths_;
  std::vector<BackendSpec> specs_;
  bool have_backends_ = false;
  std::vector<std::string> backend_names_;
  bool simulated_ = false;
  Failure backend_failure_;
  std::string content_hash_;
  std::string token_;
  std::optional<EarlyScan> early_scan_;  // under way, where the input is large
  std::optional<InputScan> scan_;

  RunStop stop_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<JobClient> client_;
  std::unique_ptr<RunBackends> backends_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ResultsAhead> ahead_;

  v1::JobStatus job_;
  int64_t done_before_ = 0;
  std::optional<absl::Duration> elapsed_;
  int64_t unsaved_ = 0;  // results that the store had not taken when the work was stopped
};

}  // namespace

int RunCommand(CommandContext& context) { return RunSession(context).Run(); }

}  // namespace nightshift
