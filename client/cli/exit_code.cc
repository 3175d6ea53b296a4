#include "client/cli/exit_code.h"

namespace nightshift {

bool JobIsOver(const v1::JobStatus& job) {
  switch (job.state()) {
    case v1::JOB_STATE_COMPLETED:
    case v1::JOB_STATE_FAILED:
    case v1::JOB_STATE_CANCELLED:
    case v1::JOB_STATE_EXPIRED:
      return true;
    case v1::JOB_STATE_PAUSED:
      // Calls still in flight at the pause will end; their outcomes belong to this run.
      return (job.reason() == v1::PAUSE_REASON_BUDGET || job.reason() == v1::PAUSE_REASON_ERRORS) &&
             job.counts().in_flight() == 0;
    default:
      return false;
  }
}

ExitCode ExitCodeOf(const v1::JobStatus& job) {
  switch (job.state()) {
    case v1::JOB_STATE_COMPLETED:
      return job.counts().succeeded() == job.counts().total() ? ExitCode::kSuccess
                                                              : ExitCode::kSomeFailed;
    case v1::JOB_STATE_FAILED:
    case v1::JOB_STATE_CANCELLED:
    case v1::JOB_STATE_EXPIRED:
    case v1::JOB_STATE_PAUSED:
      return ExitCode::kStopped;
    default:
      return ExitCode::kInternal;
  }
}

std::string ExitCodeHelp() {
  return R"(How nightshift ends

    0  everything succeeded
    1  internal error, a disk that is full, or a data folder that cannot be used:
       another process has it open, it is damaged, or a newer version wrote it
    2  bad usage or refused input; also an unknown job. Nothing was run
    3  finished, but some requests did not succeed: see the errors file
    4  stopped before the end: cancelled, expired, out of budget, stopped by
       --stop-on-error-rate, or `watch --timeout` ran out
    5  the coordinator or a backend could not be reached
   75  coordinator only: the store can no longer be trusted; start it again
  129  its terminal has gone  }
  130  interrupted by Ctrl-C  } all answers so far are saved, and the message
  143  ended by SIGTERM       } holds the command that resumes

`run`, `watch` and `submit --wait` end with the same code for the same outcome.
`status`, `jobs` and the other queries end with 0 whatever the job's state.
`audit` ends with 1 when something disagrees. The servers end with 0 on SIGTERM.
A code that is not listed here is a failure.
)";
}

}  // namespace nightshift
