// A client that keeps as many calls in flight as a limiter allows, on one of the models of
// server_model.h.
#ifndef NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_CLOSED_LOOP_H_
#define NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_CLOSED_LOOP_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/worker/core/limiter/server_model.h"
#include "worker/core/limiter.h"

namespace nightshift {

struct LoopOptions {
  double seconds = 1800;      // of model time
  double sample_every = 5;    // seconds
  double round_trip = 0.002;  // seconds
  // Something to do at a time, ascending.
  struct Event {
    double at = 0;
    std::function<void(Load&)> act;
  };
  std::vector<Event> events;
};

struct LoopResult {
  struct Sample {
    double at = 0;
    int level = 0;
    double per_second = 0;  // made since the last sample
    int running = 0;
    int waiting = 0;
  };
  std::vector<Sample> samples;
  int64_t answered = 0;
  int64_t refused = 0;

  // Means over the samples in (from, to].
  double PerSecond(double from, double to = 1e18) const;
  double Level(double from, double to = 1e18) const;
  int MedianWaiting(double from, double to = 1e18) const;
  int LevelAt(double at) const;
};

LoopResult RunLoop(ServerModel& server, Load load, Limiter& limiter, const LoopOptions& options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_CLOSED_LOOP_H_
