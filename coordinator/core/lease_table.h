// Who holds which request. A request is held by one worker, or by two while a copy of it runs
// elsewhere (speculation.h); a worker's requests can be listed, and counted per backend, without
// looking at anyone else's.
//
// Of the two holders one is the holder, whose failures count, and the other has the copy. When the
// holder gives the request up, the other becomes the holder: nobody has to know which was which.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_LEASE_TABLE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_LEASE_TABLE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
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
  int32_t priority = 0;                  // likewise
  LeaseWay way = {};
};

class LeaseTable {
 public:
  // `id` must not be held.
  void Add(const RequestId& id, const Lease& lease);
  // `id` must be held by another worker, and by that one alone.
  void AddCopy(const RequestId& id, const Lease& lease);
  // The holder is another from now on; `id` must be held. A copy that it has is what it holds.
  void Replace(const RequestId& id, const Lease& lease);
  // The holder's; null when nobody holds it. Valid until the next change, like the others.
  const Lease* Find(const RequestId& id) const;
  // Null when there is no copy.
  const Lease* FindCopy(const RequestId& id) const;
  // What this worker has of it, as holder or as copy; null: nothing.
  const Lease* FindOf(const RequestId& id, WorkerNumber worker) const;
  // The holder's; `id` must be held.
  void SetWay(const RequestId& id, const LeaseWay& way);

  enum class Released {
    kNotHeld,      // by this worker
    kOtherGoesOn,  // the other one holds it now
    kFree,         // nobody holds it any more
  };
  Released Release(const RequestId& id, WorkerNumber worker);
  // By whomever it is held.
  void Remove(const RequestId& id);

  // As holder, rising.
  std::vector<RequestId> HeldBy(WorkerNumber worker) const;
  std::vector<RequestId> CopiesOf(WorkerNumber worker) const;
  // Copies included, here and below.
  int64_t CountOf(WorkerNumber worker) const;
  int64_t CountOf(WorkerNumber worker, uint32_t backend) const;
  int64_t CountOf(WorkerNumber worker, Caution caution) const;
  int64_t CountOf(WorkerNumber worker, uint32_t backend, Caution caution) const;
  // Those with this priority or a higher one.
  int64_t CountFrom(int32_t priority, WorkerNumber worker, uint32_t backend) const;
  // Requests that are held; copies are not counted again.
  int64_t size() const { return static_cast<int64_t>(leases_.size()); }
  int64_t copies() const { return static_cast<int64_t>(copies_.size()); }

 private:
  using Leases = absl::flat_hash_map<RequestId, Lease>;
  using Ids = absl::flat_hash_set<RequestId>;
  struct PerBackend {
    int64_t all = 0;
    std::array<int64_t, kCautions> by_caution{};
    absl::btree_map<int32_t, int64_t> by_priority;  // no zeros
  };
  struct Holder {
    Ids requests;
    Ids copies;
    std::vector<PerBackend> per_backend;
    std::array<int64_t, kCautions> per_caution{};
  };

  void Count(Ids Holder::*ids, const RequestId& id, const Lease& lease);
  void Uncount(Ids Holder::*ids, const RequestId& id, const Lease& lease);
  std::vector<RequestId> Sorted(WorkerNumber worker, Ids Holder::*ids) const;

  Leases leases_;
  Leases copies_;                                      // of requests in `leases_`
  absl::flat_hash_map<WorkerNumber, Holder> holders_;  // those that hold something
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_LEASE_TABLE_H_
