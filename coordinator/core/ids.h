// Names of things inside the coordinator.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_IDS_H_
#define NIGHTSHIFT_COORDINATOR_CORE_IDS_H_

#include <cstdint>
#include <utility>

namespace nightshift {

// The store's number of a job: never reused, ordered by creation.
using JobNumber = uint64_t;

// A worker's process as this coordinator knows it, from its first Hello on; a reconnect of the same
// process has the same number. Never reused within a run of the coordinator.
using WorkerNumber = uint64_t;

struct RequestId {
  JobNumber job = 0;
  uint64_t index = 0;

  friend bool operator==(const RequestId&, const RequestId&) = default;
  friend auto operator<=>(const RequestId&, const RequestId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RequestId& id) {
    return H::combine(std::move(h), id.job, id.index);
  }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_IDS_H_
