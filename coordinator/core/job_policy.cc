#include "coordinator/core/job_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "coordinator/core/job_state.h"

namespace nightshift {
namespace {

absl::string_view Word(const JobDraft& draft) { return JobStateInfo(draft.record.state()).word; }

bool Ended(const JobDraft& draft) { return JobStateInfo(draft.record.state()).terminal; }

void Move(JobDraft* draft, v1::JobState to, absl::Time wall) {
  MoveJob(&draft->record, to, wall);
  draft->write_row = true;
  if (!Ended(*draft)) return;
  const int64_t rest = std::max<int64_t>(0, draft->record.total() - draft->finished);
  if (to == v1::JOB_STATE_EXPIRED) {
    draft->record.set_expired(rest);
  } else {
    draft->record.set_cancelled(rest);
  }
  *draft->record.mutable_final_sums() = draft->sums;
}

absl::Status Forbidden(const JobDraft& draft, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("job ", draft.record.id(), " is ", Word(draft), ": ", what));
}

absl::Status Pause(const JobCommand& command, absl::Time wall, JobDraft* draft) {
  const v1::PauseReason reason =
      command.reason == v1::PAUSE_REASON_NONE ? v1::PAUSE_REASON_USER : command.reason;
  const v1::JobState state = draft->record.state();
  if (state == v1::JOB_STATE_PAUSED) {
    // A person's wish outlasts whatever else held the job up, and nothing overrides it.
    if (reason != v1::PAUSE_REASON_USER || draft->record.reason() == reason) {
      return absl::OkStatus();
    }
  } else if (JobStateInfo(state).runnable) {
    Move(draft, v1::JOB_STATE_PAUSED, wall);
  } else {
    return Forbidden(*draft, "it cannot be paused");
  }
  draft->record.set_reason(reason);
  draft->record.set_state_detail(command.detail);
  draft->write_row = true;
  return absl::OkStatus();
}

absl::Status Resume(const JobCommand& command, absl::Time wall, JobDraft* draft) {
  const v1::JobState state = draft->record.state();
  if (state != v1::JOB_STATE_PAUSED && !JobStateInfo(state).runnable) {
    return Forbidden(*draft, Ended(*draft) ? "it has ended; nightshift retry runs again what failed"
                                           : "it cannot be resumed");
  }
  v1::JobOptions options = draft->record.options();
  if (command.budget_usd > 0) options.set_budget_usd(command.budget_usd);
  if (command.budget_tokens > 0) options.set_budget_tokens(command.budget_tokens);
  const std::string spent = SpentBudget(options, draft->sums);
  // A job that runs is paused for it by what follows (Settle).
  if (state == v1::JOB_STATE_PAUSED && !spent.empty()) {
    return Forbidden(*draft,
                     absl::StrCat(spent, "; what is done can be read with nightshift results ",
                                  draft->record.id(), ", the rest needs a larger one"));
  }
  if (options.budget_usd() != draft->record.options().budget_usd() ||
      options.budget_tokens() != draft->record.options().budget_tokens()) {
    *draft->record.mutable_options() = std::move(options);
    draft->write_row = true;
  }
  if (state != v1::JOB_STATE_PAUSED) return absl::OkStatus();
  Move(draft, draft->record.started_at_ms() == 0 ? v1::JOB_STATE_QUEUED : v1::JOB_STATE_RUNNING,
       wall);
  return absl::OkStatus();
}

absl::Status Cancel(absl::Time wall, JobDraft* draft) {
  const v1::JobState state = draft->record.state();
  if (state == v1::JOB_STATE_CANCELLING || state == v1::JOB_STATE_CANCELLED) {
    return absl::OkStatus();
  }
  if (!CanMoveJob(state, v1::JOB_STATE_CANCELLING)) {
    return Forbidden(*draft, "it has ended and cannot be cancelled");
  }
  Move(draft, v1::JOB_STATE_CANCELLING, wall);
  return absl::OkStatus();
}

absl::Status End(v1::JobState to, const std::string& detail, absl::Time wall, JobDraft* draft) {
  if (draft->record.state() == to) return absl::OkStatus();
  if (!CanMoveJob(draft->record.state(), to)) {
    return Forbidden(*draft, absl::StrCat("it cannot become ", JobStateInfo(to).word));
  }
  Move(draft, to, wall);
  draft->record.set_state_detail(detail);
  return absl::OkStatus();
}

absl::Status Frontier(absl::Time wall, JobDraft* draft) {
  if (!JobStateInfo(draft->record.state()).takes_results) {
    return Forbidden(*draft, "nothing of it goes out any more");
  }
  NoteStarted(draft, wall);
  if (draft->frontier > draft->record.lease_frontier()) draft->write_row = true;
  return absl::OkStatus();
}

absl::Status Reopen(const JobCommand& command, absl::Time wall, JobDraft* draft) {
  if (!Ended(*draft)) return Forbidden(*draft, "only a job that has ended can be run again");
  // What is to stay was read from the store: it must be what the disk has now.
  if (!JobStateInfo(draft->state_before).terminal ||
      (command.record.run() != 0 && command.record.run() != draft->record.run())) {
    return absl::AbortedError(absl::StrCat("job ", draft->record.id(),
                                           " has just changed; ask again with nightshift retry ",
                                           draft->record.id()));
  }
  BeginNextRun(&draft->record, wall);
  draft->sums = command.sums;
  draft->finished = command.sums.succeeded() + command.sums.failed();
  draft->sampled_succeeded = 0;
  draft->sampled_failed = 0;
  draft->frontier = 0;
  draft->write_row = true;
  return absl::OkStatus();
}

absl::Status Delete(JobDraft* draft) {
  if (!Ended(*draft)) {
    return Forbidden(*draft,
                     absl::StrCat("cancel it first, with nightshift cancel ", draft->record.id()));
  }
  draft->erase = true;
  return absl::OkStatus();
}

std::string ErrorRateExceeded(const JobDraft& draft) {
  const double limit = draft.record.options().stop_on_error_rate();
  const int64_t sample = draft.sampled_succeeded + draft.sampled_failed;
  if (limit <= 0 || sample < kErrorSampleMin) return "";
  const double rate = static_cast<double>(draft.sampled_failed) / static_cast<double>(sample);
  if (rate < limit) return "";
  return absl::StrFormat(
      "stopped: %d of %d answered requests failed (%.0f %%), and --stop-on-error-rate is %.0f %%; "
      "nightshift errors %s shows why, nightshift retry %s runs the rest",
      draft.sampled_failed, sample, rate * 100, limit * 100, draft.record.id(), draft.record.id());
}

}  // namespace

void NoteStarted(JobDraft* draft, absl::Time wall) {
  if (draft->record.state() == v1::JOB_STATE_QUEUED) Move(draft, v1::JOB_STATE_RUNNING, wall);
  if (draft->record.started_at_ms() == 0) {
    draft->record.set_started_at_ms(absl::ToUnixMillis(wall));
    draft->write_row = true;
  }
}

absl::Status ApplyCommand(const JobCommand& command, absl::Time wall, JobDraft* draft) {
  switch (command.kind) {
    case JobCommand::Kind::kFrontier:
      return Frontier(wall, draft);
    case JobCommand::Kind::kPause:
      return Pause(command, wall, draft);
    case JobCommand::Kind::kResume:
      return Resume(command, wall, draft);
    case JobCommand::Kind::kCancel:
      return Cancel(wall, draft);
    case JobCommand::Kind::kExpire:
      return End(v1::JOB_STATE_EXPIRED, command.detail, wall, draft);
    case JobCommand::Kind::kStop:
      return End(v1::JOB_STATE_FAILED, command.detail, wall, draft);
    case JobCommand::Kind::kReopen:
      return Reopen(command, wall, draft);
    case JobCommand::Kind::kDelete:
      return Delete(draft);
    case JobCommand::Kind::kSeal:
      break;
  }
  return absl::InternalError("a seal is not a change of a job that is there");
}

void CompleteIfDone(JobDraft* draft, absl::Time wall) {
  if (draft->erase || draft->finished < draft->record.total()) return;
  if (CanMoveJob(draft->record.state(), v1::JOB_STATE_FINALIZING)) {
    Move(draft, v1::JOB_STATE_FINALIZING, wall);
  }
  if (draft->record.state() == v1::JOB_STATE_FINALIZING) {
    Move(draft, v1::JOB_STATE_COMPLETED, wall);
  }
}

void Settle(JobDraft* draft, absl::Time wall) {
  if (draft->erase) return;
  CompleteIfDone(draft, wall);
  if (draft->state_before == v1::JOB_STATE_CANCELLING &&
      draft->record.state() == v1::JOB_STATE_CANCELLING) {
    Move(draft, v1::JOB_STATE_CANCELLED, wall);
  }
  if (!JobStateInfo(draft->record.state()).takes_results) return;
  if (const std::string stop = ErrorRateExceeded(*draft); !stop.empty()) {
    Move(draft, v1::JOB_STATE_FAILED, wall);
    draft->record.set_state_detail(stop);
    return;
  }
  if (!JobStateInfo(draft->record.state()).runnable) return;
  if (const std::string spent = SpentBudget(draft->record.options(), draft->sums); !spent.empty()) {
    Move(draft, v1::JOB_STATE_PAUSED, wall);
    draft->record.set_reason(v1::PAUSE_REASON_BUDGET);
    draft->record.set_state_detail(spent);
  }
}

std::string SpentBudget(const v1::JobOptions& options, const v1::ProgressSums& sums) {
  const int64_t tokens = sums.prompt_tokens() + sums.completion_tokens();
  if (options.budget_usd() > 0 && sums.cost_usd() >= options.budget_usd()) {
    return absl::StrFormat("its budget of $%.2f is spent ($%.2f so far)", options.budget_usd(),
                           sums.cost_usd());
  }
  if (options.budget_tokens() > 0 && tokens >= options.budget_tokens()) {
    return absl::StrCat("its budget of ", WithCommas(options.budget_tokens()), " tokens is spent (",
                        WithCommas(tokens), " so far)");
  }
  return "";
}

}  // namespace nightshift
