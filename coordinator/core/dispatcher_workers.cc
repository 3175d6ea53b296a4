// Workers as they come, report, hand back and go: what that means for the leases.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"

namespace nightshift {

absl::StatusOr<Dispatcher::HelloReply> Dispatcher::Impl::OnHello(const v1::Hello& hello,
                                                                 MonotonicTime now,
                                                                 absl::Time wall) {
  MutexLock lock(&mutex);
  auto said = workers.Hello(hello, now, wall);
  if (!said.ok()) return said.status();
  Worker* worker = *said;
  NoteAlive(worker, WorkerState::kGone);  // whatever was thought of it
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
  for (const auto& held : {leases.HeldBy(worker->number), leases.CopiesOf(worker->number)}) {
    for (const RequestId& id : held) {
      if (kept.count(id) == 0) TakeBack(id, worker->number);
    }
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
  // A failure whose charge is in the store already: only its acknowledgement was lost. The same for
  // a rejection that has moved the request on.
  const bool goes_on = held.kind() == v1::AttemptResult::RETRY ||
                       (held.kind() == v1::AttemptResult::REJECTED && job->router != nullptr);
  if (goes_on && held.attempt() < ChargedAttempts(*job, id.index)) return false;
  Lease lease{worker->number,
              workers.BackendPlace(worker, held.backend()),
              0,
              held.attempt(),
              job->queue->CautionOf(id.index),
              job->record.options().priority()};
  lease.way = ClaimedWay(*job, id.index, held.backend());
  if (job->queue->Claim(id.index)) {
    leases.Add(id, lease);
    Touch(job);
    return true;
  }
  switch (job->queue->StateOf(id.index)) {
    case RequestState::kFinished:
      return false;
    case RequestState::kLeased:
      // It has the copy: as before.
      if (const Lease* copy = leases.FindCopy(id);
          copy != nullptr && copy->worker == worker->number) {
        return true;
      }
      // Someone else's by now: the call is not wanted, but a finished call was paid for. An answer
      // that a dead process left behind is not lost with it.
      if (const Lease* holder = leases.Find(id); holder->worker != worker->number) {
        if (!held.answered() || lost.count(holder->worker) == 0) return held.answered();
      } else if (holder->backend == lease.backend) {
        lease.way = holder->way;
      }
      // A newer lease of the same request may have been lost with the stream.
      leases.Replace(id, lease);
      return true;
    default:
      // Being written: perhaps this very answer, whose acknowledgement was lost.
      return held.answered();
  }
}

absl::Duration Dispatcher::Impl::ReconnectGrace() const {
  return std::min(options.reconnect_grace, options.lease_ttl);
}

void Dispatcher::Impl::TakeBack(const RequestId& id, WorkerNumber worker) {
  if (leases.Release(id, worker) != LeaseTable::Released::kFree) return;
  Job* job = jobs.Find(id.job);
  // Not while the loss of an earlier holder is being written: it goes out again after that.
  if (job->queue->StateOf(id.index) == RequestState::kLeased) job->queue->Return(id.index);
  Touch(job);
}

void Dispatcher::Impl::Lapse(Worker* worker, MonotonicTime now) {
  std::vector<uint64_t> batches;
  const std::vector<RequestId> held = leases.HeldBy(worker->number);
  for (const RequestId& id : held) batches.push_back(leases.Find(id)->lease_id);
  std::sort(batches.begin(), batches.end());
  lapsed_leases += std::unique(batches.begin(), batches.end()) - batches.begin();
  worker->gone_on_trial = OnTrial(worker->number);
  workers.Gone(worker, now);
  const std::vector<RequestId> copies = leases.CopiesOf(worker->number);
  if (held.empty() && copies.empty()) return;
  LogWarning("worker ", worker->name, " is gone with ", held.size() + copies.size(),
             " requests in its hands: they go to others; answers that it still brings are taken");
  if (worker->drain_said) {
    // It was told to stop, and had no time left: no request has done that.
    for (const RequestId& id : held) TakeBack(id, worker->number);
    for (const RequestId& id : copies) TakeBack(id, worker->number);
  } else {
    SetLost(worker->number, true);
  }
}

void Dispatcher::Impl::NoteAlive(Worker* worker, WorkerState before) {
  if (before != WorkerState::kGone || worker->state == WorkerState::kGone) return;
  SetLost(worker->number, false);
  if (!std::exchange(worker->losses_counted, false)) return;
  // The rows say one more until they are written the next time: too careful, if at all.
  for (const JobNumber number : jobs.active()) {
    Job* job = jobs.Find(number);
    for (auto& [index, attempts] : job->attempts) {
      if (attempts.lost_with != worker->number) continue;
      attempts.lost_with = 0;
      --attempts.lost_workers;
      job->queue->SetCaution(index, job->CautionOf(attempts));
    }
  }
}

bool Dispatcher::Impl::OnTrial(WorkerNumber worker) const {
  return leases.CountOf(worker) == 1 && leases.CountOf(worker, Caution::kAccused) == 1;
}

bool Dispatcher::Impl::LostTogether(const Worker& worker) const {
  const absl::Duration at_most = std::min(kLostTogether, options.lease_ttl / 4);
  for (const auto& [number, other] : workers.all()) {
    // One process after another of the same name: not at the same time.
    if (other.name == worker.name || other.drain_said) continue;
    const bool gone = other.state == WorkerState::kGone;
    if (!gone && other.state != WorkerState::kSilent) continue;
    if (gone ? other.gone_on_trial : OnTrial(number)) continue;
    // Known to be lost before the trial began: then the trial came of it, and not both of one
    // cause.
    if (gone && other.gone_at <= worker.trial_began) continue;
    if (absl::AbsDuration(other.last_heard - worker.last_heard) <= at_most) return true;
  }
  return false;
}

v1::RateShares Dispatcher::Impl::OnReport(WorkerNumber number, const v1::Report& report,
                                          MonotonicTime now, bool* matters) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return {};
  const WorkerState before = worker->state;
  const bool changed = workers.Report(worker, report, now);
  if (changed) TouchFleet();
  // A large idle fleet reports a thousand times a second, and nobody needs to look up for it.
  *matters = changed || !jobs.active().empty();
  NoteAlive(worker, before);
  return rate_shares.Of(worker, workers, now);
}

void Dispatcher::Impl::OnReturned(WorkerNumber number, const v1::Returned& returned,
                                  MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return;
  const WorkerState before = worker->state;
  workers.Heard(worker, now);
  NoteAlive(worker, before);
  for (const v1::RequestKey& key : returned.keys()) {
    const RequestId id{key.job(), key.index()};
    const Lease* lease = leases.FindOf(id, number);
    if (lease == nullptr) continue;
    Backend& backend = worker->backends[lease->backend];
    // Or else the same would go out to it again before it can say that it takes nothing.
    backend.reported = false;
    backend.recall_until = MonotonicTime();
    TakeBack(id, number);
  }
}

void Dispatcher::Impl::OnDrain(WorkerNumber number, MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return;
  const WorkerState before = worker->state;
  workers.Drain(worker, now);
  NoteAlive(worker, before);
  TouchFleet();
}

void Dispatcher::Impl::OnStreamClosed(WorkerNumber number, MonotonicTime now) {
  MutexLock lock(&mutex);
  Worker* worker = workers.Find(number);
  if (worker == nullptr) return;
  workers.StreamClosed(worker, now);
  if (WorkerRegistry::HasEnded(*worker) && leases.CountOf(number) == 0) workers.Gone(worker, now);
  TouchFleet();
}

void Dispatcher::Impl::Tick(MonotonicTime now) {
  MutexLock lock(&mutex);
  bool changed = false;
  for (auto& [number, worker] : workers.all()) {
    if (!WorkerRegistry::HasEnded(worker) || leases.CountOf(number) > 0) continue;
    workers.Gone(&worker, now);
    changed = true;
  }
  for (Worker* worker : workers.Overdue(now, options.lease_ttl, ReconnectGrace())) {
    // A conviction is for good: the worker gets longer to come back.
    if (OnTrial(worker->number) && now - worker->last_heard <= kTrialPatience * options.lease_ttl) {
      continue;
    }
    Lapse(worker, now);
    changed = true;
  }
  changed |= workers.Sweep(now);
  if (changed) TouchFleet();
  PlanForDeadlines(now);
}

void Dispatcher::Impl::Ungrant(WorkerNumber number, absl::Span<const RequestId> ids) {
  MutexLock lock(&mutex);
  for (const RequestId& id : ids) {
    TakeBack(id, number);
  }
}

}  // namespace nightshift
