#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/core/job_state.h"
#include "coordinator/jobs/output_reader.h"
#include "storage/keys.h"
#include "storage/record.h"
#include "tests/sim/trouble.h"

namespace nightshift::sim {
namespace {

// Within this much simulated time after the trouble everything must have ended. The longest honest
// waits are a backend's wish of two minutes and a retry's backoff of one.
constexpr absl::Duration kPeaceMax = absl::Hours(2);
constexpr absl::Duration kTidyEvery = absl::Milliseconds(500);
// Recounting costs as much as many events; the audit much more.
constexpr int64_t kCheckEvery = 4;
constexpr int64_t kAuditEvery = 512;
constexpr size_t kLinesKept = 60;

}  // namespace

World::World(const Plan& plan, bool print)
    : plan_(plan),
      print_(print),
      witness_(
          [this](std::string what) {
            if (report_.violation.empty()) report_.violation = std::move(what);
          },
          plan.SeesAllDeaths()),
      environment_{.plan = plan_,
                   .scheduler = scheduler_,
                   .witness = witness_,
                   .weather = {.slow = plan.faults.slow_network,
                               .prompt = plan.frugal,
                               .duplicates = plan.faults.duplicated_messages,
                               .reorders = plan.faults.reordered_messages},
                   .trace = [this](const std::string& line) { Trace(line); }},
      random_(environment_.NewRandom()),
      disk_(plan_, witness_, scheduler_.clock()) {
  for (int i = 0; i < 3; ++i) {
    auto server = std::make_unique<Server>();
    server->name = absl::StrCat("server-", i);
    // One for each model, and one that takes anything.
    if (i < 2) server->models.push_back(absl::StrCat("m", i));
    server->latency_seconds = 0.05 + random_.Unit();
    servers_.push_back(std::move(server));
  }
  StartCoordinator();
  workers_.resize(plan_.workers);
  for (size_t place = 0; place < workers_.size(); ++place) StartWorker(place, true);
  client_ = std::make_unique<SimClient>(environment_, [this] { return coordinator_.get(); });
}

World::~World() {
  if (coordinator_ != nullptr && coordinator_->alive()) coordinator_->Crash();
  for (const auto& worker : workers_) {
    if (worker != nullptr && worker->alive()) worker->Crash();
  }
}

void World::Trace(const std::string& line) {
  const std::string text = absl::StrCat(
      absl::FormatDuration(scheduler_.Now() - MonotonicTime{1'000'000'000}), " ", line);
  for (const char c : text) {
    report_.fingerprint = (report_.fingerprint ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  if (print_) std::fprintf(stderr, "%s\n", text.c_str());
  lines_.push_back(text);
  if (lines_.size() > kLinesKept) lines_.pop_front();
}

// --- the coordinator
// -------------------------------------------------------------------------------

void World::StartCoordinator() {
  ++report_.coordinator_runs;
  coordinator_greeted_ = false;
  Trace("the coordinator starts");
  coordinator_ = std::make_unique<SimCoordinator>(environment_, disk_, [this] {
    scheduler_.After(absl::ZeroDuration(), nullptr, [this] { CrashCoordinator(); });
  });
}

void World::CrashCoordinator() {
  if (coordinator_ == nullptr) return;
  Trace("the coordinator is gone");
  coordinator_->Crash();
  witness_.CheckRows(disk_.rows());
  old_coordinators_.push_back(std::move(coordinator_));
  const absl::Duration down = random_.Chance(0.5) ? absl::Seconds(1) : absl::Seconds(40);
  scheduler_.After(environment_.trouble ? down * random_.Unit() : absl::Seconds(1), nullptr,
                   [this] { StartCoordinator(); });
}

void World::RestartCoordinator() {
  if (coordinator_ == nullptr || !coordinator_->serving()) return;
  Trace("the coordinator is told to stop");
  coordinator_->ShutDown([this, which = coordinator_.get()] {
    scheduler_.After(absl::ZeroDuration(), nullptr, [this, which] {
      if (coordinator_.get() == which) CrashCoordinator();
    });
  });
}

void World::StopCoordinator(absl::Duration time) {
  if (coordinator_ == nullptr) return;
  Trace(absl::StrCat("the coordinator stands still for ", absl::FormatDuration(time)));
  coordinator_->Stop(time);
}

// --- workers -------------------------------------------------------------------------------------

void World::StartWorker(size_t place, bool same_name) {
  const int run = ++report_.worker_runs;
  const std::string name =
      same_name ? absl::StrCat("worker-", place) : absl::StrCat("worker-", place, "-", run);
  std::vector<Server*> servers;
  for (int i = 0; i < plan_.backends_per_worker; ++i) {
    servers.push_back(servers_[(place + i) % servers_.size()].get());
  }
  // Whatever the plan, somebody serves every model.
  if (place == 0) servers[0] = servers_[2].get();
  if (servers.size() == 2 && servers[0] == servers[1]) servers.pop_back();
  Trace(absl::StrCat("worker ", name, " starts"));
  const auto knock = [this](std::shared_ptr<Connection> connection) {
    return coordinator_ != nullptr && coordinator_->Take(std::move(connection));
  };
  const auto if_present = [this, place, run](void (World::*what)(size_t)) {
    scheduler_.After(absl::ZeroDuration(), nullptr, [this, place, run, what] {
      const SimWorker* const now = workers_[place].get();
      if (now != nullptr && now->session() == absl::StrCat("s", run)) (this->*what)(place);
    });
  };
  workers_[place] = std::make_unique<SimWorker>(
      environment_, name, absl::StrCat("s", run), std::move(servers), knock,
      [if_present] { if_present(&World::BuryWorker); },
      [if_present] { if_present(&World::CrashWorker); });
}

void World::ReplaceWorker(size_t place, absl::Duration after) {
  old_workers_.push_back(std::move(workers_[place]));
  const bool same_name = random_.Chance(0.6);
  scheduler_.After(environment_.trouble ? after : absl::Seconds(1), nullptr,
                   [this, place, same_name] { StartWorker(place, same_name); });
}

void World::CrashWorker(size_t place) {
  if (workers_[place] == nullptr) return;
  Trace(absl::StrCat("worker ", workers_[place]->name(), " is killed"));
  workers_[place]->Crash();
  ReplaceWorker(place,
                (random_.Chance(0.5) ? absl::Seconds(1) : absl::Seconds(40)) * random_.Unit());
}

void World::BuryWorker(size_t place) {
  Trace(absl::StrCat("worker ", workers_[place]->name(), " has ended"));
  workers_[place]->Bury();
  ReplaceWorker(place, absl::Seconds(20) * random_.Unit());
}

void World::StopWorker(size_t place, absl::Duration time) {
  if (workers_[place] == nullptr) return;
  Trace(absl::StrCat("worker ", workers_[place]->name(), " stands still for ",
                     absl::FormatDuration(time)));
  workers_[place]->Stop(time);
}

void World::DrainWorker(size_t place, absl::Duration grace) {
  if (workers_[place] == nullptr) return;
  Trace(absl::StrCat("worker ", workers_[place]->name(), " is told to stop"));
  workers_[place]->Drain(grace);
}

void World::CutLink(size_t place) {
  if (workers_[place] == nullptr) return;
  Trace(absl::StrCat("the stream of ", workers_[place]->name(), " breaks"));
  workers_[place]->CutLink();
}

void World::Partition(size_t place, absl::Duration time) {
  if (workers_[place] == nullptr) return;
  Trace(absl::StrCat(workers_[place]->name(), " is cut off for ", absl::FormatDuration(time)));
  workers_[place]->SetUnreachable(time);
  workers_[place]->CutLink();
}

void World::TakeServerDown(size_t server, absl::Duration time) {
  if (servers_[server]->down) return;
  Trace(absl::StrCat(servers_[server]->name, " is down for ", absl::FormatDuration(time)));
  const auto set = [this, server](bool down) {
    servers_[server]->down = down;
    for (const auto& worker : workers_) {
      if (worker != nullptr) worker->Probe();
    }
  };
  set(true);
  scheduler_.After(time, nullptr, [set] { set(false); });
}

void World::JumpWallClock(absl::Duration by) {
  Trace(absl::StrCat("the wall clock jumps by ", absl::FormatDuration(by)));
  scheduler_.clock().JumpWall(by);
}

// --- time passes
// -----------------------------------------------------------------------------------

WorldReport World::Run() {
  const MonotonicTime begin = scheduler_.Now();
  auto trouble = std::make_unique<Trouble>(*this);
  RunUntil(begin + plan_.trouble);
  Calm();
  const MonotonicTime end = scheduler_.Now() + kPeaceMax;
  while (report_.violation.empty() && !Settled() && scheduler_.Now() < end) {
    client_->Tidy();
    RunUntil(scheduler_.Now() + kTidyEvery);
  }
  if (report_.violation.empty() && !Settled()) {
    std::string what = absl::StrCat("not everything has ended ", absl::FormatDuration(kPeaceMax),
                                    " after the trouble:", client_->Describe(coordinator_.get()));
    for (const auto& worker : workers_) {
      if (worker != nullptr) absl::StrAppend(&what, "\n  ", worker->Describe());
    }
    witness_.Violation(what);
  }
  if (report_.violation.empty()) CheckEnd();
  if (report_.violation.empty()) CheckAfterRestart();
  report_.duration = scheduler_.Now() - begin;
  report_.events = scheduler_.events();
  report_.commits = witness_.commits();
  report_.outcomes = witness_.outcomes();
  report_.calls = witness_.calls();
  report_.copies = witness_.copies();
  report_.recalled = witness_.recalled();
  report_.kills_max = witness_.kills_max();
  report_.last_lines.assign(lines_.begin(), lines_.end());
  return report_;
}

void World::RunUntil(MonotonicTime end) {
  while (report_.violation.empty() && scheduler_.RunNext(end)) {
    CheckSometimes();
    if (report_.violation.empty()) continue;
    Trace(absl::StrCat("VIOLATION: ", report_.violation));
  }
}

void World::CheckSometimes() {
  if (coordinator_ == nullptr || !coordinator_->serving()) return;
  if (!std::exchange(coordinator_greeted_, true)) {
    Trace("the coordinator serves");
    client_->CheckKnown(*coordinator_);
    coordinator_->Check(/*audit=*/true);
  } else if (scheduler_.events() % kCheckEvery == 0) {
    coordinator_->Check(scheduler_.events() % kAuditEvery == 0);
  }
}

void World::Calm() {
  Trace("the trouble is over");
  environment_.trouble = false;
  environment_.weather.slow = false;
  environment_.weather.duplicates = false;
  environment_.weather.reorders = false;
  for (const auto& server : servers_) server->down = false;
  for (const auto& worker : workers_) {
    if (worker != nullptr) worker->Probe();
  }
}

bool World::Settled() {
  if (coordinator_ == nullptr || !coordinator_->serving() || coordinator_->stopped()) return false;
  if (!client_->AllDone(*coordinator_)) return false;
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker != nullptr && !worker->draining() && worker->Idle();
  });
}

// --- the end
// ---------------------------------------------------------------------------------------

void World::CheckEnd() {
  Trace("everything has ended");
  coordinator_->Check(/*audit=*/true);
  client_->CheckKnown(*coordinator_);
  witness_.CheckRows(disk_.rows());
  for (const v1::WorkerStatus& worker : coordinator_->dispatcher().ListWorkers(scheduler_.Now())) {
    if (worker.leased() == 0) continue;
    witness_.Violation(absl::StrCat("worker ", worker.name(), " is idle, and ", worker.leased(),
                                    " requests are leased to it"));
  }
  if (plan_.frugal && !witness_.answered_twice().empty()) {
    witness_.Violation(absl::StrCat(witness_.answered_twice(),
                                    " was answered twice, though only the coordinator has died"));
  }
  CheckOutput();
  CheckRequests();
}

// What is stored of a request is what was handed in.
void World::CheckRequests() {
  for (const JobNumber job : coordinator_->dispatcher().ListJobs()) {
    const auto record = coordinator_->dispatcher().GetRecord(job);
    const SimJob* const wanted = client_->Find(record->idempotency_token());
    if (wanted == nullptr) {
      return witness_.Violation(absl::StrCat("nobody has handed in job ", job));
    }
    for (uint64_t index = 0; index < wanted->requests.size(); ++index) {
      const std::string key = RequestRowKey(job, index);
      const auto row = disk_.rows().Get(Family::kRequests, key);
      v1::RequestRecord request;
      if (!row.ok() || !DecodeRecord(key, *row, &request).ok() ||
          request.body() != wanted->Request(index).body()) {
        return witness_.Violation(
            absl::StrCat("request ", index, " of job ", job, " is not what was handed in"));
      }
    }
  }
}

// Every request of an ended job is in one of its two files, once.
void World::CheckOutput() {
  for (const JobNumber job : coordinator_->dispatcher().ListJobs()) {
    const auto status = coordinator_->dispatcher().GetStatus(job, scheduler_.Now());
    int64_t lines[2] = {0, 0};
    for (const auto kind : {v1::ReadOutputRequest::RESULTS, v1::ReadOutputRequest::ERRORS}) {
      v1::ReadOutputRequest request;
      request.set_job(status->id());
      request.set_kind(kind);
      auto reader = OutputReader::Create(disk_.rows(), coordinator_->dispatcher(), request);
      if (!reader.ok()) return witness_.Violation(reader.status().ToString());
      for (;;) {
        const auto chunk = (*reader)->Next(size_t{64} << 10);
        if (!chunk.ok()) return witness_.Violation(chunk.status().ToString());
        if (chunk->count() == 0) break;
        lines[kind == v1::ReadOutputRequest::ERRORS] += chunk->count();
      }
    }
    const v1::Counts& counts = status->counts();
    if (lines[0] != counts.succeeded() || lines[0] + lines[1] != counts.total()) {
      witness_.Violation(absl::StrCat("job ", job, " has ", lines[0], " results and ", lines[1],
                                      " errors: ", counts.ShortDebugString()));
    }
  }
}

// What the disk says is what the memory said.
void World::CheckAfterRestart() {
  const auto all = [this] {
    std::string text;
    for (const JobNumber job : coordinator_->dispatcher().ListJobs()) {
      const auto status = coordinator_->dispatcher().GetStatus(job, scheduler_.Now());
      absl::StrAppend(&text, "job ", job, " ", static_cast<int>(status->state()), " ",
                      status->counts().ShortDebugString(), " ", status->prompt_tokens(), " ",
                      status->finished_at_ms(), "\n");
    }
    return text;
  };
  const std::string before = all();
  CrashCoordinator();
  const MonotonicTime end = scheduler_.Now() + absl::Minutes(1);
  while (report_.violation.empty() && scheduler_.Now() < end &&
         (coordinator_ == nullptr || !coordinator_->serving())) {
    RunUntil(scheduler_.Now() + kTidyEvery);
  }
  if (!report_.violation.empty()) return;
  if (coordinator_ == nullptr || !coordinator_->serving()) {
    return witness_.Violation("the coordinator does not start again");
  }
  coordinator_->Check(/*audit=*/true);
  witness_.CheckNothingElse(disk_.rows(), coordinator_->dispatcher().ListJobs());
  if (const std::string after = all(); after != before) {
    witness_.Violation(absl::StrCat("after a restart it is\n", after, "and it was\n", before));
  }
}

}  // namespace nightshift::sim
