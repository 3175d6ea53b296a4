// The dispatcher against a small world that does everything wrong: workers die, reconnect and
// repeat themselves, messages and acknowledgements get lost, people change their minds, and the
// coordinator crashes between any two steps of a commit. After each step the invariants hold; once
// the faults stop, every job ends.
//
// A run is a function of its seed: NIGHTSHIFT_SEED=N runs that one alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/random.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/job_state.h"
#include "tests/coordinator/core/disk.h"

namespace nightshift {
namespace {

using Kind = JobCommand::Kind;

// A worker process. Its number and stream change; what it holds stays with it until it dies.
struct Process {
  std::string name, session;
  std::vector<std::string> models;
  WorkerNumber number = 0;
  bool stream = false;
  struct Told {
    int32_t attempt = 0, run = 0;
  };
  std::map<RequestId, Told> held;           // leased, not answered; what the lease said
  std::map<RequestId, ResultEvent> outbox;  // answered, not acknowledged
};

class World {
 public:
  // Every other world is calm enough for jobs to come to their ends, where requests are called for
  // twice.
  explicit World(uint64_t seed) : random_(seed), calm_(seed % 2 == 0) {
    for (int i = 0; i < 4; ++i) processes_.push_back(NewProcess(i));
    Start();
  }

  void RandomStep() {
    switch (random_.Below(24)) {
      case 0:
        SubmitJob();
        break;
      case 1:
      case 2:
        Connect(AnyProcess());
        break;
      case 3:
        Disconnect(AnyProcess());
        break;
      case 4:
        if (random_.Chance(calm_ ? 0.05 : 0.3)) Die(AnyProcess());
        break;
      case 5:
        HandBack(AnyProcess());
        break;
      case 6:
        if (random_.Chance(0.2)) Drain(AnyProcess());
        break;
      case 7:
        clock_.Advance(absl::Milliseconds(static_cast<int64_t>(random_.Below(20000))));
        dispatcher_->Tick(clock_.Now());
        break;
      case 8:
        if (random_.Chance(calm_ ? 0.02 : 0.15)) Start();  // crash and restart
        break;
      case 9:
      case 10:
        CommitWaiting(/*faults=*/true, RandomCommands());
        break;
      case 11:
      case 12:
      case 13:
        CommitWaiting(/*faults=*/true, {});
        break;
      case 14:
      case 15:
      case 16:
        Grant(/*faults=*/true);
        break;
      case 17:
        Resend(AnyProcess());
        break;
      case 18:
      case 19:
        Report(AnyProcess(), static_cast<int32_t>(random_.Below(20)) + (calm_ ? 30 : 0));
        break;
      default:
        Work(AnyProcess(), /*faults=*/true);
        break;
    }
  }

  // No more faults: one honest worker, nothing paused. True when every job has ended.
  bool Settle() {
    for (Process& process : processes_) Disconnect(process);
    Process& honest = processes_[0];
    honest = NewProcess(0);
    honest.models.clear();
    for (int round = 0; round < 400; ++round) {
      if (!honest.stream) Connect(honest);
      Report(honest, 50);
      std::vector<JobCommand> commands;
      for (const JobNumber job : dispatcher_->ListJobs()) {
        const v1::JobStatus status = *dispatcher_->GetStatus(job, clock_.Now());
        if (status.state() != v1::JOB_STATE_PAUSED) continue;
        // What has spent its budget cannot go on, whoever paused it first.
        const int64_t budget = status.options().budget_tokens();
        const bool spent =
            status.reason() == v1::PAUSE_REASON_BUDGET ||
            (budget > 0 && status.prompt_tokens() + status.completion_tokens() >= budget);
        commands.push_back(Command(spent ? Kind::kCancel : Kind::kResume, job));
      }
      CommitWaiting(false, commands);
      while (dispatcher_->HasInternalWork()) CommitWaiting(false, {});
      Grant(false);
      for (int i = 0; i < 5; ++i) Work(honest, false);
      clock_.Advance(absl::Seconds(3));
      dispatcher_->Tick(clock_.Now());
      bool all = true;
      for (const JobNumber job : dispatcher_->ListJobs()) {
        all &= Terminal(dispatcher_->GetStatus(job, clock_.Now())->state());
      }
      Check();
      if (all) return true;
    }
    return false;
  }

  void Check() {
    dispatcher_->CheckConsistent();
    ASSERT_EQ(dispatcher_->ListJobs().size(), disk_.jobs.size());
    int64_t in_flight = 0;
    for (const auto& [number, on_disk] : disk_.jobs) {
      const v1::JobStatus status = *dispatcher_->GetStatus(number, clock_.Now());
      const v1::Counts& counts = status.counts();
      in_flight += counts.in_flight();
      ASSERT_EQ(counts.succeeded() + counts.failed() + counts.cancelled() + counts.expired() +
                    counts.pending() + counts.in_flight() + counts.retrying(),
                counts.total());
      // Memory, sums and rows say the same.
      int64_t succeeded = 0, failed = 0;
      for (const auto& [index, outcome] : on_disk.outcomes) {
        ++(outcome.kind() == v1::OUTCOME_SUCCEEDED ? succeeded : failed);
      }
      ASSERT_EQ(counts.succeeded(), succeeded);
      ASSERT_EQ(counts.failed(), failed);
      ASSERT_EQ(status.state(), on_disk.record.state());
      if (Terminal(status.state())) {
        ASSERT_EQ(counts.pending() + counts.in_flight() + counts.retrying(), 0);
        continue;
      }
      // However often a failure was sent, and whatever died meanwhile.
      for (const auto& [index, attempts] : on_disk.attempts) {
        ASSERT_LE(attempts.charged(), charged_failures_[(RequestId{number, index})])
            << "a failure was charged twice";
      }
      for (const auto& [index, outcome] : on_disk.outcomes) {
        const std::string bitmap = *dispatcher_->FinishedBitmap(number, 0);
        ASSERT_NE(bitmap[index / 8] >> (index % 8) & 1, 0);
      }
    }
    int64_t leased = 0;
    for (const v1::WorkerStatus& worker : dispatcher_->ListWorkers(clock_.Now())) {
      leased += worker.leased();
    }
    // A request that is out twice is in flight once; one whose holder was lost, but not its copy,
    // is neither while that is being written.
    ASSERT_EQ(leased, in_flight + dispatcher_->copies_out());
  }

  int64_t copies_made() const { return copies + dispatcher_->copies_made(); }
  int64_t outcomes() const {
    int64_t count = 0;
    for (const auto& [number, job] : disk_.jobs) {
      count += static_cast<int64_t>(job.outcomes.size());
    }
    return count;
  }
  // The jobs that have not ended.
  std::string Describe() const {
    std::string text;
    for (const JobNumber job : dispatcher_->ListJobs()) {
      const v1::JobStatus status = *dispatcher_->GetStatus(job, clock_.Now());
      if (!Terminal(status.state())) absl::StrAppend(&text, status.ShortDebugString(), "\n");
    }
    for (const v1::WorkerStatus& worker : dispatcher_->ListWorkers(clock_.Now())) {
      absl::StrAppend(&text, worker.ShortDebugString(), "\n");
    }
    return text;
  }
  int64_t duplicates = 0;
  int64_t lapses = 0;
  int64_t copies = 0;
  int64_t late = 0;
  int64_t crashes = 0;

 private:
  Process NewProcess(int place) {
    Process process;
    process.name = absl::StrCat("w", place);
    process.session = absl::StrCat("session-", ++sessions_);
    if (random_.Chance(0.3)) process.models = {"a"};
    if (random_.Chance(0.2)) process.models = {"a", "b"};
    return process;
  }

  Process& AnyProcess() { return processes_[random_.Below(processes_.size())]; }

  // A new coordinator on the same disk; what was on its way to the old one is lost.
  void Start() {
    if (dispatcher_ != nullptr) {
      duplicates += dispatcher_->duplicate_results();
      copies += dispatcher_->copies_made();
      lapses += dispatcher_->lapsed_leases();
      ++crashes;
    }
    DispatcherOptions options;
    options.epoch = ++epoch_;
    options.random_seed = random_.Next();
    if (random_.Chance(0.2)) options.reclaim_grace = absl::ZeroDuration();
    dispatcher_ = std::make_unique<Dispatcher>(options);
    dispatcher_->Load(disk_.Read(), clock_.Now());
    waiting_.clear();
    for (Process& process : processes_) {
      process.stream = false;
      process.number = 0;
    }
  }

  void SubmitJob() {
    if (disk_.jobs.size() >= 6) return;
    JobCommand seal = Seal(++last_job_, 1 + static_cast<int64_t>(random_.Below(120)));
    for (int64_t i = 0; i < seal.record.total(); ++i) {
      if (random_.Chance(0.05)) seal.invalid.push_back(static_cast<uint64_t>(i));
    }
    v1::JobOptions* options = seal.record.mutable_options();
    options->set_priority(static_cast<int32_t>(random_.Below(3)));
    options->set_max_attempts(static_cast<int32_t>(random_.Below(5)));
    if (random_.Chance(0.2)) options->set_budget_tokens(400);
    if (random_.Chance(0.2)) options->set_stop_on_error_rate(0.4);
    if (random_.Chance(0.3)) seal.record.add_models("a");
    if (random_.Chance(0.3)) seal.record.set_idempotency_token(absl::StrCat(random_.Below(4)));
    CommitWaiting(true, {seal});
  }

  std::vector<JobCommand> RandomCommands() {
    std::vector<JobCommand> commands;
    const std::vector<JobNumber> jobs = dispatcher_->ListJobs();
    if (jobs.empty()) return commands;
    if (calm_ && random_.Chance(0.9)) return commands;
    for (uint64_t n = random_.Below(3); n > 0; --n) {
      const JobNumber job = jobs[random_.Below(jobs.size())];
      switch (random_.Below(12)) {
        case 0:
          commands.push_back(Command(Kind::kCancel, job));
          break;
        case 1:
          commands.push_back(Command(Kind::kExpire, job));
          break;
        case 2:
          commands.push_back(Command(Kind::kStop, job));
          break;
        case 3:
          commands.push_back(Command(Kind::kDelete, job));
          break;
        case 4:
          commands.push_back(Reopen(job));
          break;
        case 5:
          commands.push_back(Command(Kind::kFrontier, job));
          break;
        case 6:
        case 7:
          commands.push_back(Command(Kind::kPause, job));
          commands.back().reason = static_cast<v1::PauseReason>(random_.Below(5));
          break;
        default:
          commands.push_back(Command(Kind::kResume, job));
          break;
      }
    }
    return commands;
  }

  // Keeps what succeeded.
  JobCommand Reopen(JobNumber number) {
    JobCommand command = Command(Kind::kReopen, number);
    const DiskJob& job = disk_.jobs.at(number);
    command.finished_bitmaps = {std::string((job.record.total() + 7) / 8, '\0')};
    for (const auto& [index, outcome] : job.outcomes) {
      if (outcome.kind() != v1::OUTCOME_SUCCEEDED) continue;
      char& byte = command.finished_bitmaps[0][index / 8];
      byte = static_cast<char>(byte | (1 << (index % 8)));
      command.sums.set_succeeded(command.sums.succeeded() + 1);
    }
    return command;
  }

  void Connect(Process& process) {
    v1::Hello hello = HelloOf(process.name, process.session, process.models);
    const auto hold = [&](const RequestId& id, bool answered, const Process::Told& told) {
      Hold(&hello, id, answered);
      v1::HeldRequest& held = *hello.mutable_held(hello.held_size() - 1);
      held.set_attempt(told.attempt);
      held.set_run(told.run);
      return &held;
    };
    for (const auto& [id, told] : process.held) hold(id, false, told);
    for (const auto& [id, event] : process.outbox) {
      const v1::AttemptResult& result = event.result;
      hold(id, true, {result.attempt(), result.run()})->set_kind(result.kind());
    }
    const auto reply = dispatcher_->OnHello(hello, clock_.Now(), clock_.WallNow());
    ASSERT_TRUE(reply.ok());
    if (random_.Chance(0.1)) {  // the answer is lost with the stream
      dispatcher_->OnStreamClosed(reply->worker, clock_.Now());
      return;
    }
    process.number = reply->worker;
    process.stream = true;
    for (const v1::RequestKey& key : reply->welcome.drop()) {
      process.held.erase({key.job(), key.index()});
      process.outbox.erase({key.job(), key.index()});
    }
    for (auto& [id, result] : process.outbox) Send(process, id);
    if (random_.Chance(0.8)) Report(process, static_cast<int32_t>(random_.Below(20)));
  }

  void Disconnect(Process& process) {
    if (!process.stream) return;
    process.stream = false;
    dispatcher_->OnStreamClosed(process.number, clock_.Now());
  }

  void Die(Process& process) {
    Disconnect(process);
    const int place = static_cast<int>(&process - processes_.data());
    process = NewProcess(place);
  }

  void Report(Process& process, int32_t limit) {
    if (!process.stream) return;
    const double rate = random_.Chance(0.3) ? 0 : random_.Unit() * 20;
    v1::Report report = ReportOf(limit, rate, process.models);
    if (random_.Chance(calm_ ? 0.97 : 0.7)) {
      v1::BackendReport& figures = *report.mutable_backends(0);
      figures.set_latency_seconds(0.1 + random_.Unit());
      figures.set_buffered(static_cast<int32_t>(process.held.size() / 2));
      for (const auto& [id, told] : process.held) {
        if (!random_.Chance(calm_ ? 0.9 : 0.3)) continue;
        v1::LongCall* call = figures.add_long_calls();
        call->mutable_key()->set_job(id.job);
        call->mutable_key()->set_index(id.index);
        call->set_age_seconds(random_.Unit() * 100);
      }
    }
    dispatcher_->OnReport(process.number, report, clock_.Now());
  }

  void Drain(Process& process) {
    if (process.stream) dispatcher_->OnDrain(process.number, v1::Drain(), clock_.Now());
  }

  void HandBack(Process& process) {
    if (!process.stream || process.held.empty()) return;
    v1::Returned returned;
    for (int i = 0; i < 3 && !process.held.empty(); ++i) {
      const RequestId id = process.held.begin()->first;
      process.held.erase(process.held.begin());
      v1::RequestKey* key = returned.add_keys();
      key->set_job(id.job);
      key->set_index(id.index);
    }
    dispatcher_->OnReturned(process.number, returned, clock_.Now());
  }

  // Ends one call. Works without a stream, too.
  void Work(Process& process, bool faults) {
    if (process.held.empty()) return;
    auto it = process.held.begin();
    std::advance(it, static_cast<int64_t>(random_.Below(std::min<size_t>(4, process.held.size()))));
    const auto [id, told] = *it;
    process.held.erase(it);
    ResultEvent result = Answered(0, id);
    result.result.mutable_usage()->set_cost_known(false);
    result.result.mutable_timing()->set_latency_ms(static_cast<int64_t>(random_.Below(1000)));
    if (faults && random_.Chance(0.25)) {
      result = Failed(0, id);
      result.result.set_charged(random_.Chance(0.7));
      if (random_.Chance(0.1)) result.result.set_retry_after_ms(3000);
      if (result.result.charged()) ++charged_failures_[id];
    } else if (faults && random_.Chance(0.1)) {
      result = Result(0, id, v1::AttemptResult::REJECTED);
    }
    result.result.set_attempt(told.attempt);
    result.result.set_run(told.run);
    result.result.set_sequence(++last_sequence_);
    process.outbox[id] = result;
    Send(process, id);
  }

  void Send(Process& process, const RequestId& id) {
    if (!process.stream) return;
    ResultEvent result = process.outbox.at(id);
    result.worker = process.number;
    waiting_.push_back(result);
  }

  void Resend(Process& process) {
    if (process.outbox.empty()) return;
    auto it = process.outbox.begin();
    std::advance(it, static_cast<int64_t>(random_.Below(process.outbox.size())));
    Send(process, it->first);
  }

  Process* ProcessOf(WorkerNumber number) {
    for (Process& process : processes_) {
      if (process.number == number && process.stream) return &process;
    }
    return nullptr;
  }

  void CommitWaiting(bool faults, const std::vector<JobCommand>& commands) {
    std::vector<ResultEvent> batch;
    while (!waiting_.empty() && (!faults || batch.size() < 12)) {
      batch.push_back(waiting_.front());
      waiting_.pop_front();
    }
    std::vector<absl::Status> statuses;
    const CommitPlan plan =
        dispatcher_->Prepare(batch, commands, &statuses, clock_.Now(), clock_.WallNow());
    dispatcher_->CheckConsistent();
    if (faults) {
      // Others go on while the disk syncs.
      if (random_.Chance(0.2)) Grant(true, /*in_commit=*/true);
      if (random_.Chance(0.05)) Connect(AnyProcess());
      if (random_.Chance(calm_ ? 0.003 : 0.02)) return Start();
    }
    disk_.Write(plan);
    if (faults && random_.Chance(calm_ ? 0.003 : 0.02)) return Start();
    const std::vector<Outgoing> outgoing = dispatcher_->Apply(plan, clock_.Now(), clock_.WallNow());
    for (const Outgoing& out : outgoing) {
      Process* process = ProcessOf(out.worker);
      if (process == nullptr || (faults && random_.Chance(0.1))) continue;
      for (const v1::RequestKey& key : out.message.revoke().keys()) {
        process->held.erase({key.job(), key.index()});
      }
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      if (plan.decisions[i].kind == ResultDecision::Kind::kRecord) ++late;
      Process* process = ProcessOf(batch[i].worker);
      if (process == nullptr || (faults && random_.Chance(0.1))) continue;  // acknowledgement lost
      const auto sent = process->outbox.find(plan.decisions[i].id);
      if (sent != process->outbox.end() &&
          sent->second.result.sequence() == batch[i].result.sequence()) {
        process->outbox.erase(sent);
      }
    }
  }

  void Grant(bool faults, bool in_commit = false) {
    const GrantPlan plan = dispatcher_->PlanGrants(clock_.Now());
    for (const auto& grant : plan.grants) {
      for (const auto& item : grant.items) {
        const DiskJob& job = disk_.jobs.at(item.id.job);
        ASSERT_EQ(job.outcomes.count(item.id.index), 0u) << "granted after its outcome";
        ASSERT_FALSE(Terminal(job.record.state()));
        const auto attempts = job.attempts.find(item.id.index);
        ASSERT_EQ(item.attempt, attempts == job.attempts.end() ? 0 : attempts->second.charged());
      }
    }
    bool durable = true;
    if (in_commit) {
      durable = plan.frontier_moved.empty();
    } else {
      for (const JobNumber job : plan.frontier_moved) {
        const Committed done =
            Commit(*dispatcher_, disk_, clock_, {}, {Command(Kind::kFrontier, job)});
        ASSERT_TRUE(done.statuses[0].ok()) << done.statuses[0];
      }
    }
    for (const auto& grant : plan.grants) {
      Process* process = ProcessOf(grant.worker);
      std::vector<RequestId> ids;
      for (const auto& item : grant.items) ids.push_back(item.id);
      if (process == nullptr || !durable || (faults && random_.Chance(0.1))) {
        dispatcher_->Ungrant(grant.worker, ids, clock_.Now());
      } else if (faults && random_.Chance(0.05)) {
        Disconnect(*process);  // lost on the way
      } else {
        for (const auto& item : grant.items) Take(process, item);
      }
    }
  }

  // A worker takes a leased request, unless it has the answer.
  void Take(Process* process, const nightshift::Grant::Item& item) {
    const RequestId& id = item.id;
    ASSERT_LT(id.index, static_cast<uint64_t>(disk_.jobs.at(id.job).record.lease_frontier()))
        << "sent before its frontier was durable";
    if (const auto sent = process->outbox.find(id); sent != process->outbox.end()) {
      const v1::AttemptResult& result = sent->second.result;
      if (result.kind() == v1::AttemptResult::ANSWERED ||
          (result.kind() == v1::AttemptResult::REJECTED && result.run() == item.run)) {
        return;
      }
      process->outbox.erase(sent);
    }
    process->held[id] = {item.attempt, item.run};
  }

  Random random_;
  const bool calm_;
  std::map<RequestId, int> charged_failures_;  // that were made
  uint64_t last_sequence_ = 0;
  FakeClock clock_;
  Disk disk_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<Process> processes_;
  std::deque<ResultEvent> waiting_;  // arrived, not committed
  JobNumber last_job_ = 0;
  uint64_t epoch_ = 0;
  int sessions_ = 0;
};

std::vector<uint64_t> Seeds() {
  uint64_t seed = 0;
  const char* given = std::getenv("NIGHTSHIFT_SEED");
  if (given != nullptr && absl::SimpleAtoi(given, &seed)) return {seed};
  std::vector<uint64_t> seeds;
  for (uint64_t i = 1; i <= 40; ++i) seeds.push_back(i);
  seeds.push_back(Random::FromSystem().Next());  // and one that nobody has tried
  return seeds;
}

TEST(DispatcherModel, InvariantsHoldUnderFaultsAndEveryJobEndsAfterThem) {
  SetLogLevel(LogLevel::kOff);
  int64_t outcomes = 0, duplicates = 0, lapses = 0, crashes = 0, copies = 0;
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE(absl::StrCat("NIGHTSHIFT_SEED=", seed));
    World world(seed);
    for (int step = 0; step < 1500; ++step) {
      world.RandomStep();
      world.Check();
      if (::testing::Test::HasFailure()) {
        FAIL() << "NIGHTSHIFT_SEED=" << seed << " step " << step;
      }
    }
    ASSERT_TRUE(world.Settle()) << "a job does not end: NIGHTSHIFT_SEED=" << seed << "\n"
                                << world.Describe();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "NIGHTSHIFT_SEED=" << seed;
    outcomes += world.outcomes();
    duplicates += world.duplicates;
    lapses += world.lapses;
    copies += world.copies_made();
    crashes += world.crashes;
  }
  std::printf("%lld outcomes, %lld duplicates, %lld lapsed leases, %lld crashes, %lld copies\n",
              static_cast<long long>(outcomes), static_cast<long long>(duplicates),
              static_cast<long long>(lapses), static_cast<long long>(crashes),
              static_cast<long long>(copies));
  // The world is as bad as it is meant to be.
  if (std::getenv("NIGHTSHIFT_SEED") == nullptr) {
    EXPECT_GT(outcomes, 1000);
    EXPECT_GT(duplicates, 100);
    EXPECT_GT(lapses, 100);
    EXPECT_GT(crashes, 100);
    EXPECT_GT(copies, 5);
  }
}

}  // namespace
}  // namespace nightshift
