// Who holds which request. A request is held once at most; a worker's requests can be listed, and
// counted per backend, without looking at anyone else's.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_LEASE_TABLE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_LEASE_TABLE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "coordinator/core/ids.h"
#include "coordinator/core/poison.h"

namespace nightshift {

// Of a job with a route: how the request came to its holder.
struct LeaseWay {
  int32_t moves = 0;   // steps along the route
  bool last = true;    // there is no further one
  bool moved = false;  // not the first backend that it was meant for
};

struct Lease {
  WorkerNumber worker = 0;
  uint32_t backend = 0;   // place in the worker's list of backends
  uint64_t lease_id = 0;  // of the batch it went out with; 0 when claimed by a Hello
  // Charged attempts of the request, as the holder knows them: a failure that names another number
  // is an old one that has been sent again.
  int32_t attempt = 0;
  Caution caution = Caution::kOrdinary;  // that it went out with
  LeaseWay way = {};
};

class LeaseTable {
 public:
  // `id` must not be held.
  void Add(const RequestId& id, const Lease& lease);
  // Null when nobody holds it. Valid until the next change.
  const Lease* Find(const RequestId& id) const;
  // `id` must be held.
  void SetWay(const RequestId& id, const LeaseWay& way);
  // False when nobody holds it.
  bool Remove(const RequestId& id);

  // Rising.
  std::vector<RequestId> HeldBy(WorkerNumber worker) const;
  int64_t CountOf(WorkerNumber worker) const;
  int64_t CountOf(WorkerNumber worker, uint32_t backend) const;
  int64_t CountOf(WorkerNumber worker, Caution caution) const;
  int64_t size() const { return static_cast<int64_t>(leases_.size()); }

 private:
  struct Holder {
    absl::flat_hash_set<RequestId> requests;
    std::vector<int64_t> per_backend;
    std::array<int64_t, kCautions> per_caution{};
  };

  absl::flat_hash_map<RequestId, Lease> leases_;
  absl::flat_hash_map<WorkerNumber, Holder> holders_;  // those that hold something
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_LEASE_TABLE_H_
