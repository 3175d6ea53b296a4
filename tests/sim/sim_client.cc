#include "tests/sim/sim_client.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/core/job_state.h"
#include "coordinator/jobs/reopen.h"

namespace nightshift::sim {
namespace {

constexpr size_t kRequestsPerMessage = 16;

// What a coordinator may say that is no one's fault.
bool MayHappen(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsAborted(status);
}

absl::Status Control(SimCoordinator& coordinator, const std::string& id,
                     v1::ControlJobRequest::Action action,
                     const std::vector<v1::ErrorClass>& classes) {
  ASSIGN_OR_RETURN(const JobNumber job, coordinator.dispatcher().FindJob(id));
  if (action == v1::ControlJobRequest::RETRY) {
    return ReopenJob(coordinator.store(), coordinator, coordinator.dispatcher(), job, classes);
  }
  JobCommand command;
  command.job = job;
  command.kind = action == v1::ControlJobRequest::PAUSE    ? JobCommand::Kind::kPause
                 : action == v1::ControlJobRequest::RESUME ? JobCommand::Kind::kResume
                 : action == v1::ControlJobRequest::CANCEL ? JobCommand::Kind::kCancel
                                                           : JobCommand::Kind::kDelete;
  if (action == v1::ControlJobRequest::PAUSE) command.reason = v1::PAUSE_REASON_USER;
  return coordinator.Execute(std::move(command));
}

}  // namespace

SimClient::SimClient(Environment& environment, std::function<SimCoordinator*()> coordinator)
    : environment_(environment),
      coordinator_(std::move(coordinator)),
      random_(environment.NewRandom()) {
  const Plan& plan = environment.plan;
  for (int i = 0; i < plan.jobs; ++i) jobs_.emplace_back().what = Invent(i);
  for (Job& job : jobs_) {
    environment_.scheduler.After(plan.trouble * 0.5 * random_.Unit(), nullptr,
                                 [this, &job] { Submit(job); });
  }
  CommandSomething();
}

SimJob SimClient::Invent(int number) {
  const Faults& faults = environment_.plan.faults;
  SimJob job;
  job.token = absl::StrCat("token-", environment_.plan.seed, "-", number);
  const uint64_t requests = 1 + random_.Below(environment_.plan.requests_max);
  const bool has_bad = faults.bad_lines && random_.Chance(0.4);
  job.skip_bad_lines = has_bad && random_.Chance(0.7);
  for (uint64_t i = 0; i < requests; ++i) {
    const double kind = random_.Unit();
    job.requests.push_back(kind < 0.03   ? Behaviour::kRejected
                           : kind < 0.06 ? Behaviour::kLong
                           : kind < 0.08 ? Behaviour::kPoison
                                         : Behaviour::kNormal);
    job.bad.push_back(has_bad && random_.Chance(0.2));
  }
  v1::JobOptions& options = job.options;
  options.set_priority(static_cast<int32_t>(random_.Below(3)));
  options.set_weight(static_cast<int32_t>(requests % 4));
  options.set_max_attempts(static_cast<int32_t>(random_.Below(6)));
  options.set_stream(random_.Chance(0.3));
  if (random_.Chance(0.3)) options.set_request_timeout_ms(5000);
  if (faults.deadlines && random_.Chance(0.5)) {
    options.set_deadline_ms(1000 + static_cast<int64_t>(random_.Below(100'000)));
  }
  if (faults.limits && random_.Chance(0.3)) {
    options.set_budget_tokens(30 * static_cast<int64_t>(1 + random_.Below(requests)));
  }
  if (faults.limits && random_.Chance(0.3)) options.set_stop_on_error_rate(0.1 + random_.Unit());
  if (options.stop_on_error_rate() > 1) options.set_stop_on_error_rate(1);
  return job;
}

void SimClient::Ask(Handler handler, Reply on_reply) {
  ++asking_;
  const Reply reply = [this, on_reply = std::move(on_reply)](const absl::Status& status) {
    --asking_;
    on_reply(status);
  };
  const absl::Duration way = environment_.weather.Delay(random_);
  environment_.scheduler.After(way, nullptr, [this, handler = std::move(handler), reply] {
    const bool lost = environment_.Now(&Faults::clients_vanish) && random_.Chance(0.1);
    const absl::Duration back = environment_.weather.Delay(random_);
    const absl::Status gone = absl::UnavailableError("no answer");
    SimCoordinator* const coordinator = coordinator_();
    if (coordinator == nullptr || !coordinator->serving()) {
      environment_.scheduler.After(back, nullptr, [reply, gone] { reply(gone); });
      return;
    }
    coordinator->Call([this, coordinator, handler, reply, lost, back, gone] {
      absl::Status status = handler(*coordinator);
      if (lost || !coordinator->alive()) status = gone;
      environment_.scheduler.After(back, nullptr, [reply, status] { reply(status); });
    });
  });
}

// --- handing in ----------------------------------------------------------------------------------

void SimClient::Submit(Job& job) {
  if (job.stage != Stage::kWaiting) return;
  job.stage = Stage::kAsking;
  const bool vanish = environment_.Now(&Faults::clients_vanish) && random_.Chance(0.2);
  auto reply = std::make_shared<v1::SubmitReply>();
  Ask(
      [this, &job, vanish, reply](SimCoordinator& coordinator) {
        return HandleSubmit(coordinator, job, vanish, reply.get());
      },
      [this, &job, reply](const absl::Status& status) { OnSubmitted(job, status, *reply); });
}

absl::Status SimClient::HandleSubmit(SimCoordinator& coordinator, const Job& job, bool vanish,
                                     v1::SubmitReply* reply) {
  v1::SubmitBegin begin;
  *begin.mutable_options() = job.what.options;
  begin.set_skip_bad_lines(job.what.skip_bad_lines);
  ASSIGN_OR_RETURN(const std::unique_ptr<Submission> submission,
                   coordinator.BeginSubmission(begin));
  const uint64_t total = job.what.requests.size();
  const uint64_t stay = vanish ? random_.Below(total + 1) : total;
  for (uint64_t next = 0; next < stay;) {
    environment_.scheduler.Sleep(environment_.weather.Delay(random_));
    v1::SubmitRequests requests;
    for (size_t i = 0; i < kRequestsPerMessage && next < stay; ++i) {
      *requests.add_requests() = job.what.Request(next++);
    }
    RETURN_IF_ERROR(submission->Add(std::move(requests)));
  }
  environment_.scheduler.Sleep(environment_.weather.Delay(random_));
  if (vanish) return absl::UnavailableError("the client has gone");
  v1::SubmitSeal seal;
  seal.set_idempotency_token(job.what.token);
  ASSIGN_OR_RETURN(*reply, submission->Seal(seal));
  return absl::OkStatus();
}

void SimClient::OnSubmitted(Job& job, const absl::Status& status, const v1::SubmitReply& reply) {
  environment_.trace(absl::StrCat("submitted ", job.what.token, ": ", status.ToString(), " ",
                                  static_cast<int>(reply.result())));
  if (!status.ok()) {
    job.stage = Stage::kWaiting;
    if (!MayHappen(status)) {
      environment_.witness.Violation(
          absl::StrCat("a submission is answered with ", status.ToString()));
    }
    environment_.scheduler.After(absl::Seconds(5 * random_.Unit()), nullptr,
                                 [this, &job] { Submit(job); });
    return;
  }
  const bool refuse = !job.what.skip_bad_lines && job.what.bad_count() > 0;
  const auto total = static_cast<int64_t>(job.what.requests.size());
  if (refuse != (reply.result() == v1::SubmitReply::REFUSED) ||
      (!refuse && reply.requests() != total)) {
    environment_.witness.Violation(absl::StrCat("the submission of ", job.what.token, " with ",
                                                total, " requests is answered with ",
                                                reply.ShortDebugString()));
  }
  job.stage = refuse ? Stage::kRefused : Stage::kMade;
  job.id = reply.job().id();
}

// --- commands ------------------------------------------------------------------------------------

void SimClient::CommandSomething() {
  const absl::Duration gap = environment_.plan.fault_gap * (0.1 + 2 * random_.Unit());
  environment_.scheduler.After(gap, nullptr, [this] {
    if (!environment_.trouble) return;
    if (environment_.Now(&Faults::commands)) {
      Job& job = jobs_[random_.Below(jobs_.size())];
      constexpr v1::ControlJobRequest::Action kActions[] = {
          v1::ControlJobRequest::PAUSE,  v1::ControlJobRequest::PAUSE,
          v1::ControlJobRequest::RESUME, v1::ControlJobRequest::RESUME,
          v1::ControlJobRequest::RESUME, v1::ControlJobRequest::CANCEL,
          v1::ControlJobRequest::RETRY,  v1::ControlJobRequest::RETRY,
          v1::ControlJobRequest::RETRY,  v1::ControlJobRequest::DELETE};
      // Sometimes several at once, to race.
      for (int i = random_.Chance(0.3) ? 3 : 1; i > 0 && job.stage == Stage::kMade; --i) {
        const auto action = kActions[random_.Below(std::size(kActions))];
        if (action == v1::ControlJobRequest::DELETE && random_.Chance(0.7)) continue;
        Command(job, action, [](const absl::Status&) {});
      }
    }
    CommandSomething();
  });
}

void SimClient::Command(Job& job, v1::ControlJobRequest::Action action, Reply reply) {
  if (action == v1::ControlJobRequest::DELETE) job.asked_to_delete = true;
  std::vector<v1::ErrorClass> classes;
  if (random_.Chance(0.3)) classes.push_back(v1::ERROR_CLASS_SERVER_ERROR);
  Ask([id = job.id, action,
       classes](SimCoordinator& coordinator) { return Control(coordinator, id, action, classes); },
      [this, &job, action, reply = std::move(reply)](const absl::Status& status) {
        environment_.trace(absl::StrCat(v1::ControlJobRequest::Action_Name(action), " of ", job.id,
                                        ": ", status.ToString()));
        const bool unknown = absl::IsNotFound(status);
        if (unknown && !job.asked_to_delete) {
          environment_.witness.Violation(absl::StrCat("job ", job.id, " is unknown"));
        } else if (!status.ok() && !unknown && !absl::IsFailedPrecondition(status) &&
                   !MayHappen(status)) {
          environment_.witness.Violation(
              absl::StrCat("a command is answered with ", status.ToString()));
        }
        if (action == v1::ControlJobRequest::DELETE && status.ok()) job.deleted = true;
        reply(status);
      });
}

// --- checks --------------------------------------------------------------------------------------

void SimClient::CheckKnown(SimCoordinator& coordinator) {
  for (const Job& job : jobs_) {
    if (job.stage != Stage::kMade) continue;
    const absl::StatusOr<JobNumber> number = coordinator.dispatcher().FindJob(job.id);
    if (!number.ok() && !job.asked_to_delete) {
      environment_.witness.Violation(absl::StrCat("job ", job.id, " was confirmed and is lost"));
    }
    if (number.ok() && job.deleted) {
      environment_.witness.Violation(absl::StrCat("job ", job.id, " was deleted and is back"));
    }
  }
}

void SimClient::Tidy() {
  SimCoordinator* const coordinator = coordinator_();
  if (coordinator == nullptr || !coordinator->serving()) return;
  for (Job& job : jobs_) {
    if (job.stage != Stage::kMade) continue;
    const absl::StatusOr<JobNumber> number = coordinator->dispatcher().FindJob(job.id);
    if (!number.ok()) continue;
    const auto status = coordinator->dispatcher().GetStatus(*number, environment_.scheduler.Now());
    if (status.ok()) TidyJob(job, *status);
  }
}

void SimClient::TidyJob(Job& job, const v1::JobStatus& status) {
  if (status.state() != v1::JOB_STATE_PAUSED || std::exchange(job.tidying, true)) return;
  // A spent budget does not come back.
  const auto action = status.reason() == v1::PAUSE_REASON_BUDGET ? v1::ControlJobRequest::CANCEL
                                                                 : v1::ControlJobRequest::RESUME;
  Command(job, action, [this, &job](const absl::Status& answer) {
    job.tidying = false;
    if (absl::IsFailedPrecondition(answer)) {
      Command(job, v1::ControlJobRequest::CANCEL, [](const absl::Status&) {});
    }
  });
}

bool SimClient::AllDone(SimCoordinator& coordinator) const {
  // A command that is still on its way may begin another run of a job.
  if (asking_ > 0) return false;
  for (const Job& job : jobs_) {
    if (job.stage == Stage::kRefused) continue;
    if (job.stage != Stage::kMade) return false;
    const absl::StatusOr<JobNumber> number = coordinator.dispatcher().FindJob(job.id);
    if (!number.ok()) continue;  // deleted: CheckKnown says so if not
    const auto record = coordinator.dispatcher().GetRecord(*number);
    if (!record.ok() || !JobStateInfo(record->state()).terminal) return false;
  }
  return true;
}

const SimJob* SimClient::Find(const std::string& token) const {
  for (const Job& job : jobs_) {
    if (job.what.token == token) return &job.what;
  }
  return nullptr;
}

std::string SimClient::Describe(SimCoordinator* coordinator) const {
  std::string text;
  for (const Job& job : jobs_) {
    absl::StrAppend(&text, "\n  ", job.what.token, " ", job.id, ": stage ",
                    static_cast<int>(job.stage));
    if (coordinator == nullptr || job.id.empty()) continue;
    const absl::StatusOr<JobNumber> number = coordinator->dispatcher().FindJob(job.id);
    if (!number.ok()) continue;
    const auto status = coordinator->dispatcher().GetStatus(*number, environment_.scheduler.Now());
    if (!status.ok()) continue;
    absl::StrAppend(&text, " ", std::string(JobStateInfo(status->state()).word), " ",
                    status->counts().ShortDebugString(), " ", status->waiting_for());
  }
  return text;
}

}  // namespace nightshift::sim
