// Where a request of a running job is, as a table. PendingQueue keeps each request in exactly one
// of these states and moves it along the edges only. The graph in README.md is compared with the
// table by a test.
//
// Pure functions over static data; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_REQUEST_STATE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_REQUEST_STATE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace nightshift {

enum class RequestState : uint8_t {
  kPending,     // has not been leased in this run of the job
  kUnclaimed,   // was perhaps leased before a restart: waits for a worker to claim it
  kReturned,    // was leased and came back, or its next attempt is due: goes out first; or is to go
                // out with caution
  kRetrying,    // failed; waits until its next attempt is due
  kLeased,      // a worker holds it
  kCommitting,  // its result is being written: nobody can lease it, a second result is a duplicate
  kFinished,    // has its outcome
};

struct RequestStateRow {
  RequestState state;
  absl::string_view word;
};

struct RequestEdge {
  RequestState from;
  RequestState to;
};

absl::Span<const RequestStateRow> RequestStates();
absl::Span<const RequestEdge> RequestEdges();
absl::string_view RequestStateWord(RequestState state);
// Constant time.
bool CanMoveRequest(RequestState from, RequestState to);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_REQUEST_STATE_H_
