// One worker process: the real runner between a simulated stream and simulated calls. What the real
// link does around the runner (opening streams, giving up on those that are not welcomed) is done
// here after its rules.
#ifndef NIGHTSHIFT_TESTS_SIM_SIM_WORKER_H_
#define NIGHTSHIFT_TESTS_SIM_SIM_WORKER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/sim/backend_model.h"
#include "tests/sim/environment.h"
#include "tests/sim/network.h"
#include "worker/core/runner.h"

namespace nightshift::sim {

class SimWorker final : public LinkPort {
 public:
  // Takes a connection to the coordinator; false when there is nobody to take it.
  using Knock = std::function<bool(std::shared_ptr<Connection>)>;

  // `on_end` is called when it has ended by itself, `on_poison` when a request has killed it;
  // either must not destroy it at once.
  SimWorker(Environment& environment, std::string name, std::string session,
            std::vector<Server*> servers, Knock knock, std::function<void()> on_end,
            std::function<void()> on_poison);

  // --- the world ---------------------------------------------------------------------------------
  // The process is killed. What it holds is gone.
  void Crash();
  // After an orderly end: what it sent still arrives.
  void Bury();
  void Stop(absl::Duration time);  // SIGSTOP … SIGCONT
  // SIGTERM: hands back and ends, within `grace`.
  void Drain(absl::Duration grace);
  void CutLink();
  // No new connection gets through before then.
  void SetUnreachable(absl::Duration time);
  // What the probes of its backends find.
  void Probe();

  const std::string& name() const { return name_; }
  const std::string& session() const { return session_; }
  bool alive() const { return process_->alive; }
  bool draining() const { return draining_; }
  bool Idle() const { return runner_->Idle() && calls_->under_way() == 0; }
  std::string Describe() const;

  // --- LinkPort ----------------------------------------------------------------------------------
  void Send(v1::WorkerMessage message) override;
  int Backlog() const override;
  void Reopen() override;

 private:
  void OpenLink();
  void OnAccepted();
  void OnMessage(v1::CoordinatorMessage message);
  void OnLinkEnded();
  void CheckAborted(const v1::RequestKey& key);
  void CheckNotTooLate();
  // For how long its requests are kept for it while nobody hears of it.
  absl::Duration KeptFor() const;
  // After everything that happens: the runner's timer.
  void Settle();
  void End();
  // What its clock says.
  MonotonicTime OwnTime() const;

  Environment& environment_;
  const std::string name_;
  const std::string session_;
  const ProcessPtr process_ = std::make_shared<Process>();
  const std::vector<Server*> servers_;
  const Knock knock_;
  const std::function<void()> on_end_;
  Random random_;

  std::unique_ptr<SimCalls> calls_;
  std::unique_ptr<Runner> runner_;
  std::map<std::string, v1::RequestKey> key_of_;  // by the body, of all leases that came
  std::map<std::pair<uint64_t, uint64_t>, std::string> body_of_;

  std::shared_ptr<Connection> link_;
  bool up_ = false;
  bool welcomed_ = false;
  MonotonicTime lost_at_;  // the last link that was welcomed
  // Since when it stood still, until it has been welcomed after that.
  std::optional<MonotonicTime> stopped_at_;
  absl::Duration slept_;  // what its clock has missed, if that is one that can
  uint64_t link_number_ = 0;
  MonotonicTime unreachable_until_;
  MonotonicTime timer_;  // when the runner's timer is due; earlier events for it are stale
  bool draining_ = false;
  bool ending_ = false;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_SIM_WORKER_H_
