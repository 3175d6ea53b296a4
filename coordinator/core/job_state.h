// The states of a job as a table: what each means, what may follow, and the one function that
// moves a job from one to the next. The graph in README.md is compared with it by a test.
//
// Pure functions over static data; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_JOB_STATE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_JOB_STATE_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nightshift/v1/record.pb.h"
#include "nightshift/v1/types.pb.h"

namespace nightshift {

struct JobStateRow {
  v1::JobState state;
  absl::string_view word;      // as status and files spell it
  absl::string_view sentence;  // what it means for the job
  bool runnable;               // new requests may go out
  bool takes_results;          // an answer that arrives becomes an outcome
  bool terminal;               // never changes; only a new run (`retry`) leaves it
};

struct JobEdge {
  v1::JobState from;
  v1::JobState to;
};

absl::Span<const JobStateRow> JobStates();
absl::Span<const JobEdge> JobEdges();

// The row of `state`; breaks the program for a number that is not in the table.
const JobStateRow& JobStateInfo(v1::JobState state);
bool CanMoveJob(v1::JobState from, v1::JobState to);

// Moves `record` along an edge; breaks the program when there is none. Reason and detail of the
// state that is left are cleared, and finished_at_ms is set when a terminal state is entered.
void MoveJob(v1::JobRecord* record, v1::JobState to, absl::Time wall);

// Starts another run of a job that has ended: back to `queued`, with a deadline of its own, as if
// nothing had been leased yet. Breaks the program when the job has not ended.
void BeginNextRun(v1::JobRecord* record, absl::Time wall);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_JOB_STATE_H_
