// Where a command about a job goes to become durable: the committer, as those see it who ask
// something of it and wait. The simulation has one that waits in simulated time.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_COMMAND_SINK_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_COMMAND_SINK_H_

#include "absl/status/status.h"
#include "coordinator/core/dispatcher.h"

namespace nightshift {

class CommandSink {
 public:
  virtual ~CommandSink() = default;

  // Queues a command and waits for it to be durable, or refused (the dispatcher's status, or
  // ResourceExhausted: the disk is full), or for the committer to be broken (Unavailable). Not from
  // the committer's own thread.
  virtual absl::Status Execute(JobCommand command) = 0;

  // Makes the committer look whether the dispatcher has a transition of its own to write
  // (Dispatcher::HasInternalWork), and whether the store is still sound. Cheap.
  virtual void Nudge() = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_COMMAND_SINK_H_
