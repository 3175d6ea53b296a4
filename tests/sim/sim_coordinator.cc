#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "coordinator/jobs/audit.h"
#include "coordinator/jobs/recovery.h"
#include "coordinator/maintenance/expirer.h"
#include "coordinator/maintenance/lease_reaper.h"
#include "storage/schema.h"

namespace nightshift::sim {

// The coordinator's half of a stream, as the gRPC reactor is: reads, and hands on.
class SimCoordinator::Stream {
 public:
  Stream(SimCoordinator& coordinator, Connection* connection)
      : coordinator_(coordinator), connection_(connection) {}

  void OnMessage(v1::WorkerMessage message) {
    WorkerStreams& streams = *coordinator_.streams_;
    switch (message.kind_case()) {
      case v1::WorkerMessage::kHello: {
        session_ = message.hello().session();
        const absl::StatusOr<WorkerNumber> worker =
            streams.Open(message.hello(), connection_->shared_from_this());
        if (!worker.ok()) return connection_->FinishWhenWritten(worker.status());
        worker_ = *worker;
        return;
      }
      case v1::WorkerMessage::kReport:
        return streams.Report(worker_, connection_, message.report());
      case v1::WorkerMessage::kResults:
        return coordinator_.AddResults(worker_, std::move(*message.mutable_results()));
      case v1::WorkerMessage::kReturned:
        return streams.Returned(worker_, connection_, message.returned());
      case v1::WorkerMessage::kDrain:
        return streams.Drain(worker_, connection_, message.drain());
      case v1::WorkerMessage::KIND_NOT_SET:
        return;
    }
  }

  void OnEnded() {
    if (worker_ != 0) coordinator_.streams_->Close(worker_, connection_);
    connection_->FinishWhenWritten(absl::OkStatus());
  }

  // False: the message vanishes.
  bool OnSend(v1::CoordinatorMessage& message) {
    Environment& environment = coordinator_.environment_;
    if (message.has_acknowledge()) {
      environment.witness.OnAcknowledged(session_, message.acknowledge(),
                                         coordinator_.disk_.rows());
    }
    if (message.has_lease()) {
      environment.witness.OnLeaseSent(message.lease(), environment.scheduler.Now(),
                                      environment.plan.stop_patience);
    }
    const bool loses = environment.plan.sabotage == Sabotage::kLostMessage && message.has_lease();
    return !(loses && ++leases_ == 2);
  }

  const std::string& session() const { return session_; }

 private:
  SimCoordinator& coordinator_;
  Connection* const connection_;  // which owns this
  std::string session_;
  WorkerNumber worker_ = 0;
  int leases_ = 0;
};

SimCoordinator::SimCoordinator(Environment& environment, SimDisk& disk,
                               std::function<void()> on_broken)
    : environment_(environment),
      disk_(disk),
      on_broken_(std::move(on_broken)),
      store_(std::make_unique<SimStore>(
          disk, environment.scheduler, process_, environment.NewRandom(),
          [&environment]() -> SimStore::Trouble {
            return {environment.Now(&Faults::slow_disk), environment.Now(&Faults::disk_error),
                    environment.Now(&Faults::disk_full)};
          })),
      arrived_(environment.scheduler),
      answered_(environment.scheduler),
      woken_(environment.scheduler),
      ended_(environment.scheduler) {
  environment_.scheduler.Spawn(process_, [this] { Start(); });
}

SimCoordinator::~SimCoordinator() {
  NIGHTSHIFT_CHECK(!process_->alive, "a coordinator is given up alive");
  if (dispatcher_ != nullptr) environment_.witness.OnCopies(dispatcher_->copies_made());
}

// --- start ---------------------------------------------------------------------------------------

void SimCoordinator::Start() {
  if (const absl::Status status = LoadFromStore(); !status.ok()) {
    if (!process_->alive) return;
    if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
      environment_.witness.Violation(
          absl::StrCat("the coordinator cannot start: ", status.ToString()));
    }
    OnBroken();
    return;
  }
  streams_ = std::make_unique<WorkerStreams>(*dispatcher_, environment_.scheduler.clock(),
                                             [this](WorkerNumber worker) { DropWaiting(worker); });
  CommitterOptions options;
  options.batch_results_max = environment_.plan.commit_results_max;
  options.deltas_per_chunk_max = environment_.plan.deltas_per_chunk_max;
  Clock& clock = environment_.scheduler.clock();
  rounds_ = std::make_unique<CommitRounds>(
      options, *store_, *dispatcher_, clock,
      [this](const Outgoing& outgoing) { streams_->Send(outgoing); },
      [this](const std::vector<WaitingCommand*>& commands) { AnswerAll(commands); });
  sender_ = std::make_unique<LeaseSender>(*store_, *dispatcher_, *this, *streams_, clock);
  std::vector<MaintenanceTask> tasks;
  tasks.push_back(NewLeaseReaper(*dispatcher_, clock));
  tasks.push_back(NewExpirer(*dispatcher_, *this, clock));
  tasks.push_back({"stalled streams", absl::Seconds(1),
                   [this] { streams_->CancelStalled(environment_.scheduler.Now()); }});
  tasks.push_back({"store health", absl::Seconds(1), [this] {
                     if (!store_->Health().ok()) OnBroken();
                   }});
  maintenance_ = std::make_unique<MaintenanceSchedule>(std::move(tasks), clock);
  environment_.scheduler.Spawn(process_, [this] { RunCommitter(); });
  environment_.scheduler.Spawn(process_, [this] { RunGrants(); });
  environment_.scheduler.Spawn(process_, [this] { RunMaintenance(); });
  serving_ = true;
}

absl::Status SimCoordinator::LoadFromStore() {
  RETURN_IF_ERROR(PrepareSchema(*store_));
  RETURN_IF_ERROR(DropUnsealedJobs(*store_));
  DispatcherOptions options;
  options.lease_ttl = environment_.plan.lease_ttl;
  options.reclaim_grace = environment_.plan.reclaim_grace;
  options.random_seed = environment_.plan.seed;
  options.speculates = !environment_.plan.frugal;
  ASSIGN_OR_RETURN(options.epoch, StartEpoch(*store_));
  environment_.witness.OnEpoch(options.epoch);
  ASSIGN_OR_RETURN(std::vector<LoadedJob> jobs, LoadJobs(*store_));
  dispatcher_ = std::make_unique<Dispatcher>(options);
  dispatcher_->SetWakeUp([this] { OnWakeUp(); });
  dispatcher_->Load(std::move(jobs), environment_.scheduler.Now());
  return absl::OkStatus();
}

// --- threads -------------------------------------------------------------------------------------

void SimCoordinator::RunCommitter() {
  bool folding = false;
  while (alive_and_well()) {
    for (auto& [worker, batch] : std::exchange(new_results_, {})) {
      rounds_->Add(worker, std::move(batch));
    }
    for (WaitingCommand* command : std::exchange(new_commands_, {})) rounds_->Add(command);
    const bool nudged = std::exchange(nudged_, false);
    if (!rounds_->HasWork() && !nudged) {
      if (!shutting_down_) {
        arrived_.Wait();
        continue;
      }
      if (std::exchange(folding, true) || !rounds_->FoldAll()) break;
    }
    if (!rounds_->DoRound().ok()) OnBroken();
  }
  // Nobody is answered by a broken or dead one.
  committer_ended_ = true;
  answered_.NotifyAll();
  ended_.NotifyAll();
}

void SimCoordinator::RunGrants() {
  MonotonicTime due = MonotonicTime::Infinite();
  while (alive_and_well() && !shutting_down_) {
    const MonotonicTime now = environment_.scheduler.Now();
    if (!look_ && due > now) {
      woken_.Wait(due.infinite() ? absl::InfiniteDuration() : due - now);
      continue;
    }
    look_ = false;
    const LeaseSender::Next next = sender_->PlanAndSend();
    due = next.due;
    if (next.rest > absl::ZeroDuration()) {
      environment_.scheduler.Sleep(next.rest);
      due = environment_.scheduler.Now();
    }
  }
}

void SimCoordinator::RunMaintenance() {
  while (alive_and_well() && !shutting_down_) {
    const MonotonicTime next = maintenance_->RunDue();
    const absl::Duration wait = next - environment_.scheduler.Now();
    if (wait > absl::ZeroDuration()) environment_.scheduler.Sleep(wait);
  }
}

// --- the committer's front -----------------------------------------------------------------------

void SimCoordinator::AddResults(WorkerNumber worker, v1::ResultBatch batch) {
  if (batch.results().empty() || shutting_down_ || broken_) return;
  if (environment_.plan.sabotage == Sabotage::kEarlyAcknowledgement) {
    Outgoing outgoing;
    outgoing.worker = worker;
    for (const v1::AttemptResult& result : batch.results()) {
      outgoing.message.mutable_acknowledge()->add_sequences(result.sequence());
    }
    streams_->Send(outgoing);
  }
  new_results_.emplace_back(worker, std::move(batch));
  arrived_.NotifyAll();
}

void SimCoordinator::DropWaiting(WorkerNumber worker) {
  std::erase_if(new_results_, [worker](const auto& waiting) { return waiting.first == worker; });
  rounds_->DropWaiting(worker);
}

absl::Status SimCoordinator::Execute(JobCommand command) {
  const absl::Status closed = absl::UnavailableError("the coordinator is going");
  if (!alive_and_well() || shutting_down_ || committer_ended_) return closed;
  WaitingCommand waiting;
  waiting.command = std::move(command);
  new_commands_.push_back(&waiting);
  arrived_.NotifyAll();
  while (!waiting.done && !committer_ended_ && process_->alive) answered_.Wait();
  return waiting.done ? waiting.status : closed;
}

void SimCoordinator::Nudge() {
  nudged_ = true;
  arrived_.NotifyAll();
}

void SimCoordinator::AnswerAll(const std::vector<WaitingCommand*>& commands) {
  for (WaitingCommand* command : commands) command->done = true;
  answered_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<Submission>> SimCoordinator::BeginSubmission(
    const v1::SubmitBegin& begin) {
  return Submission::Begin(*store_, *this, *dispatcher_, environment_.scheduler.clock(), begin,
                           "/nowhere");
}

void SimCoordinator::OnWakeUp() {
  if (sender_ == nullptr) return;
  if (dispatcher_->HasInternalWork()) Nudge();
  look_ = true;
  woken_.NotifyAll();
}

void SimCoordinator::OnBroken() {
  if (std::exchange(broken_, true)) return;
  serving_ = false;
  on_broken_();
}

// --- the world -----------------------------------------------------------------------------------

bool SimCoordinator::Take(std::shared_ptr<Connection> connection) {
  if (!serving_ || shutting_down_) return false;
  auto stream = std::make_shared<Stream>(*this, connection.get());
  connection->BindCoordinator(
      process_,
      {
          [stream](v1::WorkerMessage message) { stream->OnMessage(std::move(message)); },
          [this] { OnWakeUp(); },
          [stream] { stream->OnEnded(); },
      },
      [stream](v1::CoordinatorMessage& message) { return stream->OnSend(message); });
  // A stopped one takes connections when it goes on.
  environment_.scheduler.After(absl::ZeroDuration(), process_, [connection] {
    if (!connection->is_cut()) connection->Accept();
  });
  std::erase_if(connections_, [](const auto& old) { return old->is_cut(); });
  connections_.push_back(std::move(connection));
  return true;
}

void SimCoordinator::Call(std::function<void()> call) {
  environment_.scheduler.Spawn(process_, std::move(call));
}

void SimCoordinator::Stop(absl::Duration time) {
  process_->stopped_until = std::max(process_->stopped_until, environment_.scheduler.Now() + time);
}

void SimCoordinator::Crash() {
  serving_ = false;
  store_->Crash();
  environment_.scheduler.Kill(process_);
  for (const std::shared_ptr<Connection>& connection : connections_) connection->Cut();
}

void SimCoordinator::ShutDown(std::function<void()> done) {
  environment_.scheduler.Spawn(process_, [this, done = std::move(done)] {
    if (!serving_ || std::exchange(shutting_down_, true)) return;
    serving_ = false;
    woken_.NotifyAll();
    arrived_.NotifyAll();
    while (!committer_ended_ && process_->alive) ended_.Wait();
    if (!alive_and_well()) return;
    streams_->FinishAll(absl::UnavailableError("the coordinator is shutting down"));
    environment_.scheduler.Sleep(absl::Milliseconds(200));
    if (process_->alive) done();
  });
}

void SimCoordinator::Check(bool audit) {
  if (!serving_) return;
  dispatcher_->CheckConsistent();
  if (!audit) return;
  for (const JobNumber job : dispatcher_->ListJobs()) {
    const v1::JobAudit report = AuditJob(disk_.rows(), *dispatcher_, job);
    if (report.agrees()) continue;
    environment_.witness.Violation(
        absl::StrCat("the audit of job ", job, " says: ", absl::StrJoin(report.findings(), "; ")));
  }
}

}  // namespace nightshift::sim
