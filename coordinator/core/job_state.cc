#include "coordinator/core/job_state.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {
namespace {

constexpr JobStateRow kStates[] = {
    {v1::JOB_STATE_VALIDATING, "validating", "the input is arriving and being checked", false,
     false, false},
    {v1::JOB_STATE_QUEUED, "queued", "whole and durable; no request has gone out in this run", true,
     true, false},
    {v1::JOB_STATE_RUNNING, "running", "requests go out and answers come in", true, true, false},
    {v1::JOB_STATE_PAUSED, "paused", "nothing new goes out; what is out may still be answered",
     false, true, false},
    {v1::JOB_STATE_FINALIZING, "finalizing", "every request has its outcome; the end is written",
     false, false, false},
    {v1::JOB_STATE_COMPLETED, "completed", "every request succeeded or failed by itself", false,
     false, true},
    {v1::JOB_STATE_FAILED, "failed", "the input was refused, or an error policy ended the job",
     false, false, true},
    {v1::JOB_STATE_CANCELLING, "cancelling", "the calls in flight are being given up", false, false,
     false},
    {v1::JOB_STATE_CANCELLED, "cancelled", "ended on request; what had no outcome never gets one",
     false, false, true},
    {v1::JOB_STATE_EXPIRED, "expired", "the deadline passed; what had no outcome never gets one",
     false, false, true},
};

constexpr JobEdge kEdges[] = {
    {v1::JOB_STATE_VALIDATING, v1::JOB_STATE_QUEUED},
    {v1::JOB_STATE_VALIDATING, v1::JOB_STATE_FAILED},

    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_PAUSED},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_FINALIZING},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_EXPIRED},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_FAILED},

    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_PAUSED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_FINALIZING},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_EXPIRED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_FAILED},

    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_QUEUED},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_RUNNING},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_FINALIZING},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_EXPIRED},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_FAILED},

    {v1::JOB_STATE_FINALIZING, v1::JOB_STATE_COMPLETED},
    {v1::JOB_STATE_CANCELLING, v1::JOB_STATE_CANCELLED},
};

}  // namespace

absl::Span<const JobStateRow> JobStates() { return kStates; }
absl::Span<const JobEdge> JobEdges() { return kEdges; }

const JobStateRow& JobStateInfo(v1::JobState state) {
  for (const JobStateRow& row : kStates) {
    if (row.state == state) return row;
  }
  CheckFailed(__FILE__, __LINE__, "a known job state", absl::StrCat("state ", int{state}));
}

bool CanMoveJob(v1::JobState from, v1::JobState to) {
  for (const JobEdge& edge : kEdges) {
    if (edge.from == from && edge.to == to) return true;
  }
  return false;
}

void MoveJob(v1::JobRecord* record, v1::JobState to, absl::Time wall) {
  NIGHTSHIFT_CHECK(CanMoveJob(record->state(), to),
                   absl::StrCat("job ", record->id(), " cannot go from ",
                                v1::JobState_Name(record->state()), " to ", v1::JobState_Name(to)));
  record->set_state(to);
  record->set_reason(v1::PAUSE_REASON_NONE);
  record->clear_state_detail();
  if (JobStateInfo(to).terminal) record->set_finished_at_ms(absl::ToUnixMillis(wall));
}

void BeginNextRun(v1::JobRecord* record, absl::Time wall) {
  NIGHTSHIFT_CHECK(JobStateInfo(record->state()).terminal,
                   absl::StrCat("job ", record->id(), " has not ended"));
  record->set_state(v1::JOB_STATE_QUEUED);
  record->set_reason(v1::PAUSE_REASON_NONE);
  record->clear_state_detail();
  record->set_run(record->run() + 1);
  record->clear_started_at_ms();
  record->clear_finished_at_ms();
  record->clear_lease_frontier();
  record->clear_cancelled();
  record->clear_expired();
  record->clear_final_sums();
  record->clear_deadline_at_ms();
  if (record->options().deadline_ms() > 0) {
    record->set_deadline_at_ms(absl::ToUnixMillis(wall) + record->options().deadline_ms());
  }
}

}  // namespace nightshift
