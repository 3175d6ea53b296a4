#include "coordinator/core/request_state.h"

#include <array>

namespace nightshift {
namespace {

constexpr RequestStateRow kStates[] = {
    {RequestState::kPending, "pending"},   {RequestState::kUnclaimed, "unclaimed"},
    {RequestState::kReturned, "returned"}, {RequestState::kRetrying, "retrying"},
    {RequestState::kLeased, "leased"},     {RequestState::kCommitting, "committing"},
    {RequestState::kFinished, "finished"},
};
constexpr int kStateCount = 7;

constexpr RequestEdge kEdges[] = {
    {RequestState::kPending, RequestState::kLeased},
    {RequestState::kPending, RequestState::kCommitting},  // an answer from before a restart
    {RequestState::kPending, RequestState::kFinished},    // a line that cannot be used, at the seal
    {RequestState::kPending, RequestState::kReturned},    // a suspect from before a restart

    {RequestState::kUnclaimed, RequestState::kPending},   // the grace time is over
    {RequestState::kUnclaimed, RequestState::kReturned},  // … for a suspect from before a restart
    {RequestState::kUnclaimed, RequestState::kLeased},
    {RequestState::kUnclaimed, RequestState::kCommitting},

    {RequestState::kReturned, RequestState::kLeased},
    {RequestState::kReturned, RequestState::kCommitting},  // a late answer of a lapsed lease

    {RequestState::kRetrying, RequestState::kReturned},  // the next attempt is due
    {RequestState::kRetrying, RequestState::kLeased},    // a worker still had a copy
    {RequestState::kRetrying, RequestState::kCommitting},

    {RequestState::kLeased, RequestState::kReturned},
    {RequestState::kLeased, RequestState::kCommitting},

    {RequestState::kCommitting, RequestState::kRetrying},
    {RequestState::kCommitting, RequestState::kFinished},
};

using Matrix = std::array<uint8_t, kStateCount>;  // a bit per state that may follow

constexpr Matrix MakeMatrix() {
  Matrix matrix{};
  for (const RequestEdge& edge : kEdges) {
    matrix[static_cast<size_t>(edge.from)] |= static_cast<uint8_t>(1u << static_cast<int>(edge.to));
  }
  return matrix;
}
constexpr Matrix kMatrix = MakeMatrix();

}  // namespace

absl::Span<const RequestStateRow> RequestStates() { return kStates; }
absl::Span<const RequestEdge> RequestEdges() { return kEdges; }

absl::string_view RequestStateWord(RequestState state) {
  return kStates[static_cast<size_t>(state)].word;
}

bool CanMoveRequest(RequestState from, RequestState to) {
  return (kMatrix[static_cast<size_t>(from)] >> static_cast<int>(to) & 1) != 0;
}

}  // namespace nightshift
