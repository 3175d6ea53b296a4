#include "coordinator/commit/committer.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_name.h"

namespace nightshift {
namespace {

// How often a full disk is looked at again.
constexpr absl::Duration kFullDiskLook = absl::Milliseconds(500);

absl::Status Closed() {
  return absl::UnavailableError("the coordinator is shutting down; try again when it is back");
}

}  // namespace

struct Committer::Impl {
  Impl(CommitterOptions options, Store& store, Dispatcher& dispatcher, Clock& clock, Send send,
       std::function<void(absl::Status)> on_broken_in)
      : on_broken(std::move(on_broken_in)),
        rounds(options, store, dispatcher, clock, std::move(send),
               [this](const std::vector<WaitingCommand*>& answered) { Finish(answered); }) {}

  void Run();
  // Takes what has arrived; waits while there is nothing to do. False when it is time to stop and
  // nothing is left.
  bool TakeArrivals();
  void Finish(const std::vector<WaitingCommand*>& answered);
  // Waits while the disk is too full to commit the next round: results stay, commands are refused.
  // False when it is time to stop instead.
  bool AwaitRoom();
  // Drops what DropWaiting was asked to and is with the rounds already.
  void DropFromRounds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Answers all commands.
  void Refuse(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Break(const absl::Status& why);

  const std::function<void(absl::Status)> on_broken;

  // The committer's thread alone.
  CommitRounds rounds;
  bool told_full = false;  // the log says that nothing is committed, and not yet that it is again

  struct Message {
    WorkerNumber worker = 0;
    v1::ResultBatch batch;
  };
  // Nothing is called while it is held.
  Mutex mutex;
  CondVar arrived;   // something for the thread
  CondVar finished;  // something for those in Execute
  std::vector<Message> new_messages ABSL_GUARDED_BY(mutex);
  // Whose results the rounds are to drop before they get `new_messages`.
  absl::flat_hash_set<WorkerNumber> to_drop ABSL_GUARDED_BY(mutex);
  // Of threads in Execute; they live on those threads' stacks.
  std::vector<WaitingCommand*> new_commands ABSL_GUARDED_BY(mutex);
  bool nudged ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  absl::Status closed ABSL_GUARDED_BY(mutex);  // why nothing more is taken

  std::atomic<std::thread::id> thread_id;
  Mutex join_mutex;
  std::thread thread ABSL_GUARDED_BY(join_mutex);
};

bool Committer::Impl::TakeArrivals() {
  MutexLock lock(&mutex);
  const bool idle = !rounds.HasWork();
  while (idle && new_messages.empty() && new_commands.empty() && !nudged && !stopping) {
    arrived.Wait(&mutex);
  }
  const bool asked = std::exchange(nudged, false);
  DropFromRounds();
  for (Message& message : new_messages) rounds.Add(message.worker, std::move(message.batch));
  new_messages.clear();
  for (WaitingCommand* command : new_commands) rounds.Add(command);
  new_commands.clear();
  return !stopping || rounds.HasWork() || asked;
}

void Committer::Impl::DropFromRounds() {
  for (const WorkerNumber worker : to_drop) rounds.DropWaiting(worker);
  to_drop.clear();
}

void Committer::Impl::Finish(const std::vector<WaitingCommand*>& answered) {
  MutexLock lock(&mutex);
  for (WaitingCommand* one : answered) one->done = true;
  finished.SignalAll();
}

bool Committer::Impl::AwaitRoom() {
  while (rounds.NeedsRoom()) {
    const absl::Status room = rounds.CheckRoom();
    if (!absl::IsResourceExhausted(room)) {
      if (room.ok() && std::exchange(told_full, false)) {
        LogInfo("the disk has room again: what has waited is committed");
      }
      return true;
    }
    if (!std::exchange(told_full, true)) {
      LogWarning("nothing is committed for now, results wait: ", room.message());
    }
    MutexLock lock(&mutex);
    Refuse(room);
    DropFromRounds();
    if (stopping) return false;
    arrived.WaitFor(&mutex, kFullDiskLook);
  }
  return true;
}

void Committer::Impl::Refuse(const absl::Status& status) {
  for (const auto& list : {rounds.TakeUnanswered(), std::exchange(new_commands, {})}) {
    for (WaitingCommand* one : list) {
      one->status = status;
      one->done = true;
    }
  }
  finished.SignalAll();
}

void Committer::Impl::Break(const absl::Status& why) {
  const absl::Status unavailable = absl::UnavailableError(absl::StrCat(
      "the coordinator's store can no longer be trusted (", why.message(),
      "); nothing of this was confirmed. Restart the coordinator: it goes on from what is safe"));
  {
    MutexLock lock(&mutex);
    closed = unavailable;
    Refuse(unavailable);
    new_messages.clear();
  }
  LogError("a commit failed: ", why.ToString(), "; no result is acknowledged any more");
  if (on_broken) on_broken(why);
}

void Committer::Impl::Run() {
  NameThisThread("ns-committer");
  thread_id = std::this_thread::get_id();
  bool folding = false;  // the last rounds of a shutdown
  for (;;) {
    if (!TakeArrivals()) {
      if (folding) break;
      folding = true;
      if (!rounds.FoldAll()) break;
    }
    // When it is time to stop: what has not been committed stays with its workers.
    if (!AwaitRoom()) break;
    if (const absl::Status status = rounds.DoRound(); !status.ok()) {
      Break(status);
      return;
    }
  }
  MutexLock lock(&mutex);
  closed = Closed();
}

Committer::Committer(CommitterOptions options, Store& store, Dispatcher& dispatcher, Clock& clock,
                     Send send, std::function<void(absl::Status)> on_broken)
    : impl_(std::make_unique<Impl>(options, store, dispatcher, clock, std::move(send),
                                   std::move(on_broken))) {
  MutexLock lock(&impl_->join_mutex);
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

Committer::~Committer() { Shutdown(); }

void Committer::AddResults(WorkerNumber worker, v1::ResultBatch batch) {
  if (batch.results().empty()) return;
  MutexLock lock(&impl_->mutex);
  if (impl_->stopping || !impl_->closed.ok()) return;  // the worker keeps and resends them
  impl_->new_messages.push_back({worker, std::move(batch)});
  impl_->arrived.Signal();
}

void Committer::DropWaiting(WorkerNumber worker) {
  MutexLock lock(&impl_->mutex);
  std::erase_if(impl_->new_messages,
                [worker](const Impl::Message& message) { return message.worker == worker; });
  impl_->to_drop.insert(worker);  // the thread alone touches the rounds
}

absl::Status Committer::Execute(JobCommand command) {
  WaitingCommand waiting;
  waiting.command = std::move(command);
  MutexLock lock(&impl_->mutex);
  if (!impl_->closed.ok()) return impl_->closed;
  if (impl_->stopping) return Closed();
  impl_->new_commands.push_back(&waiting);
  impl_->arrived.Signal();
  while (!waiting.done) impl_->finished.Wait(&impl_->mutex);
  return waiting.status;
}

void Committer::Nudge() {
  MutexLock lock(&impl_->mutex);
  impl_->nudged = true;
  impl_->arrived.Signal();
}

void Committer::Shutdown() {
  {
    MutexLock lock(&impl_->mutex);
    impl_->stopping = true;
    impl_->arrived.Signal();
  }
  // From on_broken: the thread is at its end, and whoever destroys this waits for it.
  if (impl_->thread_id.load() == std::this_thread::get_id()) return;
  MutexLock lock(&impl_->join_mutex);
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace nightshift
