#include "coordinator/core/worker_state.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {
namespace {

constexpr WorkerStateRow kStates[] = {
    {WorkerState::kConnected, "connected"},
    {WorkerState::kSilent, "silent"},
    {WorkerState::kDraining, "draining"},
    {WorkerState::kGone, "gone"},
};

constexpr WorkerEdge kEdges[] = {
    {WorkerState::kConnected, WorkerState::kSilent},
    {WorkerState::kConnected, WorkerState::kDraining},
    {WorkerState::kConnected, WorkerState::kGone},

    {WorkerState::kSilent, WorkerState::kConnected},
    {WorkerState::kSilent, WorkerState::kDraining},
    {WorkerState::kSilent, WorkerState::kGone},

    {WorkerState::kDraining, WorkerState::kConnected},  // the same process said Hello again
    {WorkerState::kDraining, WorkerState::kGone},

    {WorkerState::kGone, WorkerState::kConnected},
    {WorkerState::kGone, WorkerState::kDraining},
};

}  // namespace

absl::Span<const WorkerStateRow> WorkerStates() { return kStates; }
absl::Span<const WorkerEdge> WorkerEdges() { return kEdges; }

absl::string_view WorkerStateWord(WorkerState state) {
  return kStates[static_cast<size_t>(state)].word;
}

bool CanMoveWorker(WorkerState from, WorkerState to) {
  for (const WorkerEdge& edge : kEdges) {
    if (edge.from == from && edge.to == to) return true;
  }
  return false;
}

void MoveWorker(WorkerState* state, WorkerState to) {
  if (*state == to) return;
  NIGHTSHIFT_CHECK(CanMoveWorker(*state, to),
                   absl::StrCat("a worker cannot go from ", WorkerStateWord(*state), " to ",
                                WorkerStateWord(to)));
  *state = to;
}

}  // namespace nightshift
