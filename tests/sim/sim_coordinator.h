// One run of the coordinator, from its start to its end: the real schema, recovery, dispatcher,
// commit rounds, lease sender, worker streams, submissions and maintenance, put together as
// coordinator.cc puts them together, but on simulated threads. Only gRPC and the thread objects are
// missing. The next run finds what is on the disk, nothing else.
#ifndef NIGHTSHIFT_TESTS_SIM_SIM_COORDINATOR_H_
#define NIGHTSHIFT_TESTS_SIM_SIM_COORDINATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/commit/command_sink.h"
#include "coordinator/commit/commit_rounds.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/jobs/submission.h"
#include "coordinator/lease_sender.h"
#include "coordinator/maintenance/maintenance.h"
#include "coordinator/rpc/worker_streams.h"
#include "tests/sim/environment.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_store.h"

namespace nightshift::sim {

class SimCoordinator final : public CommandSink {
 public:
  // Begins to start. `on_broken` is called when its store fails: it must be crashed soon.
  SimCoordinator(Environment& environment, SimDisk& disk, std::function<void()> on_broken);
  ~SimCoordinator() override;

  // --- the world ---------------------------------------------------------------------------------
  // Everything in memory is gone, at once. All its threads leave.
  void Crash();
  void Stop(absl::Duration time);
  // In order: commits what has arrived, folds, closes streams; then calls `done`.
  void ShutDown(std::function<void()> done);

  // A worker's connection; false when nobody listens.
  bool Take(std::shared_ptr<Connection> connection);
  // Runs `call` on a thread of this coordinator, as an RPC's handler. When the coordinator dies
  // under it the call leaves early; it must not wait for anything else.
  void Call(std::function<void()> call);

  bool serving() const { return serving_; }
  bool alive() const { return process_->alive; }
  bool stopped() const { return process_->stopped_until > environment_.scheduler.Now(); }
  // Recounts the memory, and sometimes compares it with the disk.
  void Check(bool audit);

  // --- for handlers ------------------------------------------------------------------------------
  Store& store() { return *store_; }
  Dispatcher& dispatcher() { return *dispatcher_; }
  absl::StatusOr<std::unique_ptr<Submission>> BeginSubmission(const v1::SubmitBegin& begin);
  absl::Status Execute(JobCommand command) override;
  void Nudge() override;

 private:
  class Stream;

  void Start();
  absl::Status LoadFromStore();
  void RunCommitter();
  void RunGrants();
  void RunMaintenance();
  void AddResults(WorkerNumber worker, v1::ResultBatch batch);
  void DropWaiting(WorkerNumber worker);
  void AnswerAll(const std::vector<WaitingCommand*>& commands);
  void OnWakeUp();
  void OnBroken();
  bool alive_and_well() const { return process_->alive && !broken_; }

  Environment& environment_;
  SimDisk& disk_;
  const std::function<void()> on_broken_;
  const ProcessPtr process_ = std::make_shared<Process>();
  const std::unique_ptr<SimStore> store_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<WorkerStreams> streams_;
  std::unique_ptr<CommitRounds> rounds_;
  std::unique_ptr<LeaseSender> sender_;
  std::unique_ptr<MaintenanceSchedule> maintenance_;
  std::vector<std::shared_ptr<Connection>> connections_;

  bool serving_ = false;
  bool broken_ = false;
  bool shutting_down_ = false;
  bool committer_ended_ = false;
  std::function<void()> on_shut_down_;

  // The committer's front, as Committer has it: what arrives while a round is under way.
  std::vector<std::pair<WorkerNumber, v1::ResultBatch>> new_results_;
  std::vector<WaitingCommand*> new_commands_;
  bool nudged_ = false;
  bool look_ = false;  // the grant loop's
  Scheduler::Condition arrived_;
  Scheduler::Condition answered_;
  Scheduler::Condition woken_;
  Scheduler::Condition ended_;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_SIM_COORDINATOR_H_
