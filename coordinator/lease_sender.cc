#include "coordinator/lease_sender.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace nightshift {
namespace {

JobCommand Command(JobCommand::Kind kind, JobNumber job) {
  JobCommand command;
  command.kind = kind;
  command.job = job;
  return command;
}

}  // namespace

LeaseSender::LeaseSender(Store& store, Dispatcher& dispatcher, CommandSink& committer,
                         WorkerStreams& streams, Clock& clock, std::function<void(int)> on_lease)
    : dispatcher_(dispatcher),
      committer_(committer),
      streams_(streams),
      clock_(clock),
      on_lease_(std::move(on_lease)),
      reader_(store, dispatcher, {kLeaseRequestsMax, kLeaseBytesMax}) {}

LeaseSender::Next LeaseSender::PlanAndSend() {
  // Before the plan, so that a stream opened after it is recognized as such.
  const uint64_t planned_at = streams_.opened();
  const GrantPlan plan = dispatcher_.PlanGrants(clock_.Now());
  for (const Outgoing& recall : plan.recalls) streams_.Send(recall);
  std::vector<JobNumber> blocked;
  WriteFrontiers(plan.frontier_moved, &blocked);

  absl::Duration rest = blocked.empty() ? absl::ZeroDuration() : kGrantRetryAfter;
  for (const Grant& grant : plan.grants) {
    if (blocked.empty()) {
      rest = std::max(rest, SendGrant(grant, planned_at));
      continue;
    }
    Grant open = grant;
    open.items.clear();
    std::vector<RequestId> held_back;
    for (const Grant::Item& item : grant.items) {
      if (std::find(blocked.begin(), blocked.end(), item.id.job) == blocked.end()) {
        open.items.push_back(item);
      } else {
        held_back.push_back(item.id);
      }
    }
    dispatcher_.Ungrant(grant.worker, held_back, clock_.Now());
    rest = std::max(rest, SendGrant(open, planned_at));
  }
  return {plan.next_due, rest};
}

void LeaseSender::WriteFrontiers(absl::Span<const JobNumber> jobs,
                                 std::vector<JobNumber>* blocked) {
  for (const JobNumber job : jobs) {
    const absl::Status status = committer_.Execute(Command(JobCommand::Kind::kFrontier, job));
    if (status.ok()) continue;
    // A job that was deleted meanwhile has nothing to send either.
    blocked->push_back(job);
    if (!absl::IsNotFound(status) && !absl::IsFailedPrecondition(status)) {
      LogDebug("no leases for now: the lease frontier could not be written: ", status.message());
    }
  }
}

absl::Duration LeaseSender::SendGrant(const Grant& grant, uint64_t planned_at) {
  std::vector<LeaseReader::Unreadable> unreadable;
  WorkerStream::Offer offer = WorkerStream::Offer::kQueued;
  size_t sent = 0;
  while (sent < grant.items.size()) {
    offer = streams_.LeaseRoom(grant.worker, planned_at);
    if (offer != WorkerStream::Offer::kQueued) break;
    v1::CoordinatorMessage message;
    size_t bytes = 0;
    const size_t unreadable_before = unreadable.size();
    const size_t next = reader_.Fill(grant, sent, message.mutable_lease(), &bytes, &unreadable);
    if (grant.routed) KeepOwn(grant.worker, message.mutable_lease());
    const int requests = message.lease().requests_size();
    if (requests > 0) {
      offer = streams_.SendLease(grant.worker, planned_at, std::move(message), bytes);
      if (offer != WorkerStream::Offer::kQueued) {
        unreadable.resize(unreadable_before);  // goes back with the rest
        break;
      }
      if (on_lease_) on_lease_(requests);
    }
    sent = next;
  }
  reader_.End();

  std::vector<RequestId> back;
  for (const LeaseReader::Unreadable& one : unreadable) back.push_back(one.id);
  for (size_t item = sent; item < grant.items.size(); ++item) {
    back.push_back(grant.items[item].id);
  }
  // First the pause, then the return: otherwise they would be granted again.
  if (!unreadable.empty()) PauseUnreadable(unreadable.front());
  if (!back.empty()) dispatcher_.Ungrant(grant.worker, back, clock_.Now());
  if (!unreadable.empty() || offer == WorkerStream::Offer::kFull) return kGrantRetryAfter;
  return offer == WorkerStream::Offer::kClosed ? kGoneRetryAfter : absl::ZeroDuration();
}

void LeaseSender::KeepOwn(WorkerNumber worker, v1::Lease* lease) {
  std::vector<RequestId> ids;
  std::vector<const std::string*> custom_ids;
  for (const v1::LeasedRequest& request : lease->requests()) {
    ids.push_back({request.key().job(), request.key().index()});
    custom_ids.push_back(&request.custom_id());
  }
  const std::vector<bool> keep = dispatcher_.Route(worker, ids, custom_ids);
  int kept = 0;
  for (int i = 0; i < lease->requests_size(); ++i) {
    if (!keep[static_cast<size_t>(i)]) continue;
    if (kept != i) lease->mutable_requests()->SwapElements(kept, i);
    ++kept;
  }
  lease->mutable_requests()->DeleteSubrange(kept, lease->requests_size() - kept);
}

void LeaseSender::PauseUnreadable(const LeaseReader::Unreadable& unreadable) {
  const absl::StatusOr<v1::JobRecord> record = dispatcher_.GetRecord(unreadable.id.job);
  if (!record.ok()) return;  // deleted meanwhile: its rows are meant to be gone
  const std::string what =
      absl::StrCat("request ", unreadable.id.index, " cannot be read back from the store (",
                   unreadable.status.message(), ")");
  LogError(record->id(), " is paused: ", what,
           ". The disk or the store's files are damaged. Results so far are safe; check with "
           "`nightshift audit ",
           record->id(), "`, then restore a backup, or cancel the job");
  JobCommand command = Command(JobCommand::Kind::kPause, unreadable.id.job);
  command.reason = v1::PAUSE_REASON_ERRORS;
  command.detail = what;
  const absl::Status status = committer_.Execute(std::move(command));
  if (!status.ok()) LogError(record->id(), " could not be paused: ", status.message());
}

}  // namespace nightshift
