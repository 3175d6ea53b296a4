#include "coordinator/core/lease_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {

void LeaseTable::Add(const RequestId& id, const Lease& lease) {
  const bool added = leases_.try_emplace(id, lease).second;
  NIGHTSHIFT_CHECK(added, absl::StrCat("request ", id.job, "/", id.index, " is held already"));
  Holder& holder = holders_[lease.worker];
  holder.requests.insert(id);
  if (holder.per_backend.size() <= lease.backend) holder.per_backend.resize(lease.backend + 1);
  ++holder.per_backend[lease.backend];
  ++holder.per_caution[static_cast<size_t>(lease.caution)];
}

const Lease* LeaseTable::Find(const RequestId& id) const {
  const auto it = leases_.find(id);
  return it == leases_.end() ? nullptr : &it->second;
}

void LeaseTable::SetWay(const RequestId& id, const LeaseWay& way) {
  leases_.find(id)->second.way = way;
}

bool LeaseTable::Remove(const RequestId& id) {
  const auto it = leases_.find(id);
  if (it == leases_.end()) return false;
  const auto holder = holders_.find(it->second.worker);
  --holder->second.per_backend[it->second.backend];
  --holder->second.per_caution[static_cast<size_t>(it->second.caution)];
  holder->second.requests.erase(id);
  if (holder->second.requests.empty()) holders_.erase(holder);
  leases_.erase(it);
  return true;
}

std::vector<RequestId> LeaseTable::HeldBy(WorkerNumber worker) const {
  std::vector<RequestId> held;
  if (const auto it = holders_.find(worker); it != holders_.end()) {
    held.assign(it->second.requests.begin(), it->second.requests.end());
    std::sort(held.begin(), held.end());
  }
  return held;
}

int64_t LeaseTable::CountOf(WorkerNumber worker) const {
  const auto it = holders_.find(worker);
  return it == holders_.end() ? 0 : static_cast<int64_t>(it->second.requests.size());
}

int64_t LeaseTable::CountOf(WorkerNumber worker, uint32_t backend) const {
  const auto it = holders_.find(worker);
  if (it == holders_.end() || it->second.per_backend.size() <= backend) return 0;
  return it->second.per_backend[backend];
}

int64_t LeaseTable::CountOf(WorkerNumber worker, Caution caution) const {
  const auto it = holders_.find(worker);
  return it == holders_.end() ? 0 : it->second.per_caution[static_cast<size_t>(caution)];
}

}  // namespace nightshift
