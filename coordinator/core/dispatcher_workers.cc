// Workers as they come, report, hand back and go: what that means for the leases.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/rate_shares.h"

namespace nightshift {

absl::StatusOr<Dispatcher::HelloReply> Dispatcher::Impl::OnHello(const v1::Hello& hello,
                                                                 MonotonicTime now,
                                                                 absl::Time wall) {
  MutexLock lock(&mutex);
  auto said = workers.Hello(hello, now, wall);
  if (!said.ok()) return said.status();
  Worker* worker = *said;
  // The machine restarted its worker: what the old process held nobody is working on.
  for (Worker* old : workers.Predecessors(*worker)) Lapse(old, now);

  HelloReply reply;
  reply.worker = worker->number;
  reply.welcome.set_lease_ttl_ms(absl::ToInt64Milliseconds(options.lease_ttl));
  reply.welcome.set_reconnect_grace_ms(absl::ToInt64Milliseconds(ReconnectGrace()));
  reply.welcome.set_epoch(options.epoch);
  reply.welcome.set_store(options.store_id);
  // Of another store: its numbers name other requests here, and the worker drops them by itself.
  const bool ours = hello.store().empty() || hello.store() == options.store_id;
  if (!ours && hello.held_size() > 0) {
    LogWarning("worker ", hello.name(), " comes with ", hello.held_size(),
               " requests of another store: it keeps its answers to them for that one");
  }
  absl::flat_hash_set<RequestId> kept;
  for (const v1::HeldRequest& held : hello.held()) {
    if (!ours) break;
    if (KeepHeld(worker, held)) {
      kept.insert({held.key().job(), held.key().index()});
    } else {
      *reply.welcome.add_drop() = held.key();
    }
  }
  // Leases that were under way to it when the stream broke.
  for (const RequestId& id : leases.HeldBy(worker->number)) {
    if (kept.count(id) == 0) TakeBack(id);
  }
  TouchFleet();
  return reply;
}

int32_t Dispatcher::Impl::ChargedAttempts(const Job& job, uint64_t index) {
  if (job.attempts.empty()) return 0;
  const auto known = job.attempts.find(index);
  return known == job.attempts.end() ? 0 : known->second.charged;
}

bool Dispatcher::Impl::KeepHeld(Worker* worker, const v1::HeldRequest& held) {
  const RequestId id{held.key().job(), held.key().index()};
  Job* job = jobs.Find(id.job);
  if (job == nullptr || job->ended() || !JobStateInfo(job->record.state()).takes_results ||
      id.index >= job->queue->total()) {
    return false;
  }
  if (OfAnEarlierRun(*job, held.run(), held.kind())) return false;
  // A failure whose charge is in the store already: only its acknowledgement was lost.
  if (held.kind() == v1::AttemptResult::RETRY && held.attempt() < ChargedAttempts(*job, id.index)) {
    return false;
  }
  const Lease lease{worker->number, workers.BackendPlace(worker, held.backend()), 0,
                    held.attempt()};
  if (job->queue->Claim(id.index)) {
    leases.Add(id, lease);
    Touch(job);
    return true;
  }
  switch (job->queue->StateOf(id.index)) {
    case RequestState::kFinished:
      return false;
    case RequestState::kLeased:
      // Someone else's by now: the call is not wanted, but a finished call was paid for.
      if (leases.Find(id)->worker != worker->number) return held.answered();
      // A newer lease of the same request may have been lost with the stream.
      leases.Remove(id);
      leases.Add(id, lease);
      return true;
    default:
      // Being written: perhaps this very answer, whose acknowledgement was lost.
      return held.answered();
  }
}

absl::Duration Dispatcher::Impl::ReconnectGrace() const {
  return std::min(options.reconnect_grace, options.lease_ttl);
}

void Dispatcher::Impl::TakeBack(const RequestId& id) {
  leases.Remove(id);
  Job* job = jobs.Find(id.job);
  job->queue->Return(id.index);
  Touch(job);
}

void Dispatcher::Impl::Lapse(Worker* worker, MonotonicTime now) {
  std::vector<uint64_t> batches;
  const std::vector<RequestId> held = leases.HeldBy(worker->number);
  for (const RequestId& id : held) {
    batches.push_back(leases.Find(id)->lease_id);
    TakeBack(id);
  }
  std::sort(batches.begin(), batches.end());
  lapsed_leases += std::unique(batches.begin(), batches.end()) - batches.begin();
  workers.Gone(worker, now);
  if (!held.empty()) {
    LogWarning("worker ", worker->name, " is gone with ", held.size(),
               " requests in its hands: they go to others; answers that it still brings are taken");
  }
}

v1::RateShares Dispatcher::Impl::OnReport(WorkerNumber number, const v1::Report& report,
                                          MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return {};
  if (workers.Report(worker, report, now)) TouchFleet();
  return RateSharesOf(workers, *worker);
}

void Dispatcher::Impl::OnReturned(WorkerNumber number, const v1::Returned& returned,
                                  MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return;
  workers.Heard(worker, now);
  for (const v1::RequestKey& key : returned.keys()) {
    const RequestId id{key.job(), key.index()};
    const Lease* lease = leases.Find(id);
    if (lease == nullptr || lease->worker != number) continue;
    // Or else the same would go out to it again before it can say that it takes nothing.
    worker->backends[lease->backend].reported = false;
    TakeBack(id);
  }
}

void Dispatcher::Impl::OnDrain(WorkerNumber number, MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return;
  workers.Drain(worker, now);
  TouchFleet();
}

void Dispatcher::Impl::OnStreamClosed(WorkerNumber number, MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return;
  workers.StreamClosed(worker, now);
  TouchFleet();
}

void Dispatcher::Impl::Tick(MonotonicTime now) {
  MutexLock lock(&mutex);
  bool changed = false;
  for (Worker* worker : workers.Overdue(now, options.lease_ttl, ReconnectGrace())) {
    Lapse(worker, now);
    changed = true;
  }
  changed |= workers.Sweep(now);
  if (changed) TouchFleet();
}

void Dispatcher::Impl::Ungrant(WorkerNumber number, absl::Span<const RequestId> ids) {
  MutexLock lock(&mutex);
  for (const RequestId& id : ids) {
    const Lease* lease = leases.Find(id);
    if (lease != nullptr && lease->worker == number) TakeBack(id);
  }
}

}  // namespace nightshift
