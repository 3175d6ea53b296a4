// The workers that have said Hello: their sessions, backends, last figures, and when they were last
// heard of. It knows nothing of leases.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_WORKER_REGISTRY_H_
#define NIGHTSHIFT_COORDINATOR_CORE_WORKER_REGISTRY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/core/ids.h"
#include "coordinator/core/model_sets.h"
#include "coordinator/core/worker_state.h"
#include "nightshift/v1/worker.pb.h"

namespace nightshift {

inline constexpr absl::string_view kWorkerProtocol = "nightshift.v1";
// Reports come every second; after this many of silence a worker gets nothing new.
inline constexpr absl::Duration kSilentAfter = absl::Seconds(5);
// How long a worker that is gone can still be seen in lists.
inline constexpr absl::Duration kGoneKept = absl::Minutes(10);
// More backends in one worker are refused: a configuration run wild, not a machine.
inline constexpr int kBackendsPerWorkerMax = 256;

// See LongCall in worker.proto.
struct LongCall {
  RequestId id;
  double age_seconds = 0;
};
// More in one report are ignored.
inline constexpr int kLongCallsMax = 32;

struct Backend {
  // As which user of its account RateShares has counted it.
  enum class Counted : char { kNot, kIdle, kBusy };

  std::string name, kind, url, state, detail, account, server, waiting_for, explain;
  std::vector<std::string> models;
  // False until the first report of the stream, and after the worker handed requests back: it gets
  // nothing until it says again what it can take.
  bool reported = false;
  Counted counted = Counted::kNot;
  int32_t limit = 0, in_flight = 0, buffered = 0;
  double requests_per_second = 0, tokens_per_second = 0, latency_seconds = 0;
  v1::ServerLoad load;
  bool load_told = false;
  bool cut_off = false;  // others end what is left sooner, as of the last plan
  std::vector<LongCall> long_calls;
  MonotonicTime reported_at;
  MonotonicTime recall_until;       // an answer to a recall is awaited, this long at most
  std::vector<signed char> serves;  // by model set: 0 not asked yet, 1 yes, -1 no
};

struct Worker {
  WorkerNumber number = 0;
  std::string name, session, version;
  WorkerState state = WorkerState::kConnected;
  bool stream_open = true;
  bool drain_said = false;  // on this stream
  int64_t connected_at_ms = 0;
  MonotonicTime first_heard;  // the process, in this run of the coordinator
  MonotonicTime last_heard;
  MonotonicTime stream_closed_at;  // while no stream is open
  MonotonicTime gone_at;
  MonotonicTime trial_began;      // when it was last given an accused request by itself
  bool gone_on_trial = false;     // when it was last lost, all it held was one accused request
  bool losses_counted = false;    // requests say that they were lost with it
  std::vector<Backend> backends;  // only ever grows: leases name a place in it
};

class WorkerRegistry {
 public:
  // Finds or makes the worker of this session and opens its stream. InvalidArgument when the Hello
  // is of another protocol or lacks a name.
  absl::StatusOr<Worker*> Hello(const v1::Hello& hello, MonotonicTime now, absl::Time wall);

  // Null when unknown (or forgotten). Valid until the worker is forgotten.
  Worker* Find(WorkerNumber number);
  const Worker* Find(WorkerNumber number) const;

  // Any message of the worker: it is alive.
  void Heard(Worker* worker, MonotonicTime now);
  // True when something changed that people may want to see (a state, a limit of 0, words).
  bool Report(Worker* worker, const v1::Report& report, MonotonicTime now);
  void Drain(Worker* worker, MonotonicTime now);
  void StreamClosed(Worker* worker, MonotonicTime now);
  void Gone(Worker* worker, MonotonicTime now);
  // It said that it ends, and its stream has ended: nothing more is to come of it. What it holds,
  // if anything, is what arrived last and is being written.
  static bool HasEnded(const Worker& worker) {
    return worker.state != WorkerState::kGone && worker.drain_said && !worker.stream_open;
  }

  // The place of the backend of that name; it is added, taking nothing, when unknown (when there is
  // no room for another, the first one stands in for it).
  uint32_t BackendPlace(Worker* worker, absl::string_view name);
  bool Serves(Backend* backend, const ModelSets& sets, int set) const;

  // Workers that have been silent for `ttl`, or without a stream for `reconnect_grace`, and are not
  // gone yet.
  std::vector<Worker*> Overdue(MonotonicTime now, absl::Duration ttl,
                               absl::Duration reconnect_grace);
  // Workers of this name, other than `worker`, whose stream is gone.
  std::vector<Worker*> Predecessors(const Worker& worker);
  // Marks quiet workers silent and forgets those gone for kGoneKept. True when anything changed.
  bool Sweep(MonotonicTime now);

  // By number, that is by first Hello.
  std::map<WorkerNumber, Worker>& all() { return workers_; }
  const std::map<WorkerNumber, Worker>& all() const { return workers_; }

 private:
  std::map<WorkerNumber, Worker> workers_;
  absl::flat_hash_map<std::string, WorkerNumber> by_session_;
  WorkerNumber last_number_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_WORKER_REGISTRY_H_
