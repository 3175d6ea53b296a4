// The people: they hand jobs in, again when they have not heard, and command them about. What they
// were told they hold against whatever the coordinator says later.
#ifndef NIGHTSHIFT_TESTS_SIM_SIM_CLIENT_H_
#define NIGHTSHIFT_TESTS_SIM_SIM_CLIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/sim/environment.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_job.h"

namespace nightshift::sim {

class SimClient {
 public:
  // `coordinator` gives the present one, null when there is none.
  SimClient(Environment& environment, std::function<SimCoordinator*()> coordinator);

  // What the coordinator must know. Call when one has started, and at the end.
  void CheckKnown(SimCoordinator& coordinator);
  // The trouble is over: hand in what is still to be handed in, and let go on what was paused.
  // Call every now and then until AllDone.
  void Tidy();
  // Every job has been handed in, or refused, and has ended; nothing is being asked.
  bool AllDone(SimCoordinator& coordinator) const;
  // The job of a token, for checking rows; null when it is none of ours.
  const SimJob* Find(const std::string& token) const;
  std::string Describe(SimCoordinator* coordinator) const;

 private:
  enum class Stage { kWaiting, kAsking, kMade, kRefused };
  struct Job {
    SimJob what;
    Stage stage = Stage::kWaiting;
    std::string id;
    bool asked_to_delete = false;  // and perhaps it was
    bool deleted = false;          // for certain
    bool tidying = false;          // a command of Tidy is under way
  };
  using Reply = std::function<void(absl::Status)>;
  using Handler = std::function<absl::Status(SimCoordinator&)>;

  SimJob Invent(int number);
  // Has `handler` run by the coordinator, and `reply` called with what comes back, if anything
  // does.
  void Ask(Handler handler, Reply on_reply);
  void Submit(Job& job);
  absl::Status HandleSubmit(SimCoordinator& coordinator, const Job& job, bool vanish,
                            v1::SubmitReply* reply);
  void OnSubmitted(Job& job, const absl::Status& status, const v1::SubmitReply& reply);
  void CommandSomething();
  void Command(Job& job, v1::ControlJobRequest::Action action, Reply reply);
  void TidyJob(Job& job, const v1::JobStatus& status);

  Environment& environment_;
  const std::function<SimCoordinator*()> coordinator_;
  Random random_;
  int asking_ = 0;         // calls under way
  std::vector<Job> jobs_;  // their number is fixed from the start
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_SIM_CLIENT_H_
