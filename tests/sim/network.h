// The stream between a worker and the coordinator, as a network and two kernels make it: messages
// of one direction arrive in order after some time; when it breaks, the last ones of each direction
// are lost and each end hears of it at a moment of its own. What was sent before may arrive long
// after the worker has opened another stream.
#ifndef NIGHTSHIFT_TESTS_SIM_NETWORK_H_
#define NIGHTSHIFT_TESTS_SIM_NETWORK_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "coordinator/rpc/worker_streams.h"
#include "nightshift/v1/worker.pb.h"
#include "tests/sim/scheduler.h"

namespace nightshift::sim {

// How long things take; changed by the world while connections exist.
struct NetworkWeather {
  bool slow = false;
  // The end of a peer is always noticed at once.
  bool prompt = false;
  // A tenth of the messages arrives a second time, or so late that others pass them: more than any
  // TCP connection does. A stream's first message in each direction is spared, since nothing is one
  // without it.
  bool duplicates = false;
  bool reorders = false;
  absl::Duration Delay(Random& random) const;
};

// One stream. The worker's end is this object; the coordinator's end is the WorkerStream half.
class Connection final : public WorkerStream, public std::enable_shared_from_this<Connection> {
 public:
  // What each end hears, in its own process.
  struct WorkerEvents {
    std::function<void()> accepted;
    std::function<void(v1::CoordinatorMessage)> message;
    std::function<void()> written;  // one message fewer waits to be sent
    std::function<void()> ended;
  };
  struct CoordinatorEvents {
    std::function<void(v1::WorkerMessage)> message;
    std::function<void()> room;  // after it had been full
    std::function<void()> ended;
  };
  // Sees each message that the coordinator sends; false: it vanishes.
  using Tap = std::function<bool(v1::CoordinatorMessage&)>;

  Connection(Scheduler& scheduler, const NetworkWeather& weather, Random random,
             size_t stream_bytes_max);

  // --- the worker's end --------------------------------------------------------------------------
  void BindWorker(ProcessPtr process, WorkerEvents events);
  void SendUp(v1::WorkerMessage message);
  int backlog() const { return backlog_; }
  // No more messages; the coordinator hears of it after those sent.
  void CloseUp();

  // --- the coordinator's end ---------------------------------------------------------------------
  void BindCoordinator(ProcessPtr process, CoordinatorEvents events, Tap tap);
  // Tells the worker that it was let in.
  void Accept();
  Offer Send(v1::CoordinatorMessage&& message, size_t bytes, bool unless_full) override;
  Offer Room() const override;
  void Cancel(absl::string_view why) override;
  void FinishWhenWritten(absl::Status status) override;
  absl::Duration WritingFor(MonotonicTime now) const override;

  // --- the world ---------------------------------------------------------------------------------
  // It breaks now. An end whose process is dead hears nothing, of course.
  void Cut();
  bool is_cut() const { return cut_; }

 private:
  struct Direction {
    MonotonicTime last_arrival;
    MonotonicTime lost_from = MonotonicTime::Infinite();  // what would arrive later does not
  };

  MonotonicTime NextArrival(Direction& direction);
  // When a message arrives, once or twice.
  std::vector<MonotonicTime> Arrivals(Direction& direction, bool first);
  MonotonicTime CutDirection(Direction& direction);
  void EndWorker(MonotonicTime at);
  void EndCoordinator(MonotonicTime at);
  absl::Duration Until(MonotonicTime at) const { return at - scheduler_.Now(); }

  Scheduler& scheduler_;
  const NetworkWeather& weather_;
  Random random_;
  const size_t stream_bytes_max_;

  ProcessPtr worker_process_;
  ProcessPtr coordinator_process_;
  WorkerEvents worker_;
  CoordinatorEvents coordinator_;
  Tap tap_;

  Direction up_;
  Direction down_;
  MonotonicTime writing_until_;  // the worker's end sends one message after the other
  int backlog_ = 0;
  size_t queued_down_ = 0;  // bytes that have not arrived
  mutable bool was_full_ = false;
  MonotonicTime full_since_;
  bool up_closed_ = false;
  bool cancelled_ = false;  // by the coordinator
  bool finishing_ = false;
  bool cut_ = false;
  bool worker_ended_ = false;
  bool coordinator_ended_ = false;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_NETWORK_H_
