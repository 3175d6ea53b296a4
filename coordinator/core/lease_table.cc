#include "coordinator/core/lease_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {

void LeaseTable::Count(Ids Holder::*ids, const RequestId& id, const Lease& lease) {
  Holder& holder = holders_[lease.worker];
  (holder.*ids).insert(id);
  if (holder.per_backend.size() <= lease.backend) holder.per_backend.resize(lease.backend + 1);
  PerBackend& counts = holder.per_backend[lease.backend];
  ++counts.all;
  ++counts.by_caution[static_cast<size_t>(lease.caution)];
  ++counts.by_priority[lease.priority];
  ++holder.per_caution[static_cast<size_t>(lease.caution)];
}

void LeaseTable::Uncount(Ids Holder::*ids, const RequestId& id, const Lease& lease) {
  const auto holder = holders_.find(lease.worker);
  PerBackend& counts = holder->second.per_backend[lease.backend];
  --counts.all;
  --counts.by_caution[static_cast<size_t>(lease.caution)];
  const auto by_priority = counts.by_priority.find(lease.priority);
  if (--by_priority->second == 0) counts.by_priority.erase(by_priority);
  --holder->second.per_caution[static_cast<size_t>(lease.caution)];
  (holder->second.*ids).erase(id);
  if (holder->second.requests.empty() && holder->second.copies.empty()) holders_.erase(holder);
}

void LeaseTable::Add(const RequestId& id, const Lease& lease) {
  const bool added = leases_.try_emplace(id, lease).second;
  NIGHTSHIFT_CHECK(added, absl::StrCat("request ", id.job, "/", id.index, " is held already"));
  Count(&Holder::requests, id, lease);
}

void LeaseTable::AddCopy(const RequestId& id, const Lease& lease) {
  const Lease* const holder = Find(id);
  NIGHTSHIFT_CHECK(holder != nullptr && holder->worker != lease.worker,
                   "a copy of what nobody else holds");
  const bool added = copies_.try_emplace(id, lease).second;
  NIGHTSHIFT_CHECK(added, "there is a copy already");
  Count(&Holder::copies, id, lease);
}

void LeaseTable::Replace(const RequestId& id, const Lease& lease) {
  const auto it = leases_.find(id);
  NIGHTSHIFT_CHECK(it != leases_.end(), "nobody holds it");
  Uncount(&Holder::requests, id, it->second);
  it->second = lease;
  if (const Lease* copy = FindCopy(id); copy != nullptr && copy->worker == lease.worker) {
    Uncount(&Holder::copies, id, *copy);
    copies_.erase(id);
  }
  Count(&Holder::requests, id, lease);
}

const Lease* LeaseTable::Find(const RequestId& id) const {
  const auto it = leases_.find(id);
  return it == leases_.end() ? nullptr : &it->second;
}

void LeaseTable::SetWay(const RequestId& id, const LeaseWay& way) {
  leases_.find(id)->second.way = way;
}

const Lease* LeaseTable::FindCopy(const RequestId& id) const {
  if (copies_.empty()) return nullptr;
  const auto it = copies_.find(id);
  return it == copies_.end() ? nullptr : &it->second;
}

const Lease* LeaseTable::FindOf(const RequestId& id, WorkerNumber worker) const {
  const Lease* const held = Find(id);
  if (held != nullptr && held->worker == worker) return held;
  const Lease* const copy = FindCopy(id);
  return copy != nullptr && copy->worker == worker ? copy : nullptr;
}

LeaseTable::Released LeaseTable::Release(const RequestId& id, WorkerNumber worker) {
  const auto held = leases_.find(id);
  if (held == leases_.end()) return Released::kNotHeld;
  const auto copy = copies_.find(id);
  if (held->second.worker != worker) {
    if (copy == copies_.end() || copy->second.worker != worker) return Released::kNotHeld;
    Uncount(&Holder::copies, id, copy->second);
    copies_.erase(copy);
    return Released::kOtherGoesOn;
  }
  Uncount(&Holder::requests, id, held->second);
  if (copy == copies_.end()) {
    leases_.erase(held);
    return Released::kFree;
  }
  held->second = copy->second;
  Uncount(&Holder::copies, id, copy->second);
  copies_.erase(copy);
  Count(&Holder::requests, id, held->second);
  return Released::kOtherGoesOn;
}

void LeaseTable::Remove(const RequestId& id) {
  const auto held = leases_.find(id);
  if (held == leases_.end()) return;
  Uncount(&Holder::requests, id, held->second);
  leases_.erase(held);
  const auto copy = copies_.find(id);
  if (copy == copies_.end()) return;
  Uncount(&Holder::copies, id, copy->second);
  copies_.erase(copy);
}

std::vector<RequestId> LeaseTable::Sorted(WorkerNumber worker, Ids Holder::*ids) const {
  std::vector<RequestId> held;
  if (const auto it = holders_.find(worker); it != holders_.end()) {
    held.assign((it->second.*ids).begin(), (it->second.*ids).end());
    std::sort(held.begin(), held.end());
  }
  return held;
}

std::vector<RequestId> LeaseTable::HeldBy(WorkerNumber worker) const {
  return Sorted(worker, &Holder::requests);
}

std::vector<RequestId> LeaseTable::CopiesOf(WorkerNumber worker) const {
  return Sorted(worker, &Holder::copies);
}

int64_t LeaseTable::CountOf(WorkerNumber worker) const {
  const auto it = holders_.find(worker);
  if (it == holders_.end()) return 0;
  return static_cast<int64_t>(it->second.requests.size() + it->second.copies.size());
}

int64_t LeaseTable::CountOf(WorkerNumber worker, uint32_t backend) const {
  const auto it = holders_.find(worker);
  if (it == holders_.end() || it->second.per_backend.size() <= backend) return 0;
  return it->second.per_backend[backend].all;
}

int64_t LeaseTable::CountOf(WorkerNumber worker, uint32_t backend, Caution caution) const {
  const auto it = holders_.find(worker);
  if (it == holders_.end() || it->second.per_backend.size() <= backend) return 0;
  return it->second.per_backend[backend].by_caution[static_cast<size_t>(caution)];
}

int64_t LeaseTable::CountOf(WorkerNumber worker, Caution caution) const {
  const auto it = holders_.find(worker);
  return it == holders_.end() ? 0 : it->second.per_caution[static_cast<size_t>(caution)];
}

int64_t LeaseTable::CountFrom(int32_t priority, WorkerNumber worker, uint32_t backend) const {
  const auto it = holders_.find(worker);
  if (it == holders_.end() || it->second.per_backend.size() <= backend) return 0;
  const auto& by_priority = it->second.per_backend[backend].by_priority;
  int64_t count = 0;
  for (auto from = by_priority.lower_bound(priority); from != by_priority.end(); ++from) {
    count += from->second;
  }
  return count;
}

}  // namespace nightshift
