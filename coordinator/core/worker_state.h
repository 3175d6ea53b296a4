// The states of a worker as the coordinator sees it, as a table. The graph in README.md is compared
// with it by a test.
//
// Pure functions over static data; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_WORKER_STATE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_WORKER_STATE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace nightshift {

enum class WorkerState : uint8_t {
  kConnected,  // its stream is there and it reports: the only state that gets leases
  kSilent,     // nothing heard for a while, or its stream is gone; it keeps its leases for now
  kDraining,   // takes nothing new; finishes or hands back what it holds
  kGone,       // its leases have lapsed
};

struct WorkerStateRow {
  WorkerState state;
  absl::string_view word;
};

struct WorkerEdge {
  WorkerState from;
  WorkerState to;
};

absl::Span<const WorkerStateRow> WorkerStates();
absl::Span<const WorkerEdge> WorkerEdges();
absl::string_view WorkerStateWord(WorkerState state);
bool CanMoveWorker(WorkerState from, WorkerState to);
// Breaks the program when there is no such edge; staying is always allowed.
void MoveWorker(WorkerState* state, WorkerState to);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_WORKER_STATE_H_
