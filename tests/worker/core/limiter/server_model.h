// A model of an inference server with continuous batching, and of a client that keeps as many calls
// in flight as a limiter allows. Discrete events, no real time; the same seeds give the same run.
//
// One step of the server makes one token for each running request and takes
//     fixed + per_request x running + per_token x tokens in the KV cache        [seconds]
// divided by a speed that wanders. A prompt is worked off when its request gets a slot, and all
// others wait for that. A request gets a slot while there are slots and its tokens fit into the KV
// cache; when the cache is full, the youngest is put back and has to begin its prompt again. All
// others wait in one queue, which may be bounded.
//
// Left out: prefix caches, prompts worked off in pieces beside the running requests, networks.
#ifndef NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_SERVER_MODEL_H_
#define NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_SERVER_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "base/random.h"

namespace nightshift {

struct ServerSpec {
  double fixed = 0.01;          // seconds per step
  double per_request = 0.0001;  // seconds per step and running request
  double per_token = 1e-8;      // seconds per step and token in the cache
  double per_prompt_token = 1e-5;
  int slots = 256;
  double cache_tokens = 1e6;
  int queue_max = 1 << 30;
  double noise = 0;  // standard deviation of the logarithm of the speed
  uint64_t noise_seed = 77;
};

struct LoadSpec {
  double prompt_mean = 500;
  double prompt_cv = 0.5;
  double output_mean = 300;
  double output_cv = 0.8;
  double output_max = 2048;
};

// Requests with log-normal sizes, of one kind or of two.
class Load {
 public:
  struct Request {
    double prompt = 0;
    double output = 0;
  };
  Load(uint64_t seed, LoadSpec spec);
  // Each request is of kind `other` with probability `share`.
  Load(uint64_t seed, LoadSpec spec, LoadSpec other, double share);
  Request Next();

 private:
  double Draw(double mean, double cv, double low, double high);
  LoadSpec spec_;
  LoadSpec other_;
  double share_ = 0;
  Random random_;
};

// What the models have in common. Times are seconds.
class ServerModel {
 public:
  struct Finished {
    double started = 0;
    Load::Request request;
  };

  virtual ~ServerModel() = default;
  // False: refused, the queue is full.
  virtual bool Submit(const Load::Request& request) = 0;
  // Goes on to the next moment in which requests end, or to `until`; what ended is in `finished`.
  virtual void Advance(double until, std::vector<Finished>& finished) = 0;
  virtual double now() const = 0;
  // Made so far: tokens where there are any, else answers.
  virtual double made() const = 0;
  virtual int running() const = 0;
  virtual int waiting() const = 0;
};

class BatchingServer final : public ServerModel {
 public:
  explicit BatchingServer(const ServerSpec& spec);

  bool Submit(const Load::Request& request) override;
  void Advance(double until, std::vector<Finished>& finished) override;
  double now() const override { return now_; }
  double made() const override { return tokens_; }
  int running() const override { return static_cast<int>(alive_count_); }
  int waiting() const override { return static_cast<int>(wait_.size()); }

  int64_t preempted() const { return preempted_; }
  void set_slots(int slots) { spec_.slots = slots; }
  void set_speed(double speed) { speed_ = speed; }

 private:
  struct Slot {
    double started = 0;  // when it was submitted
    Load::Request request;
    double left = 0;
    double made = 0;
    double admitted_step = 0;
    bool alive = false;
    uint64_t id = 0;
  };
  struct End {
    double step;
    uint64_t id;
    bool operator>(const End& other) const {
      return step != other.step ? step > other.step : id > other.id;
    }
  };

  void Admit();
  void Preempt();
  void Progress(double steps, double seconds);
  double StepTime();
  double Wander();
  Slot* Find(uint64_t id);

  ServerSpec spec_;
  double speed_ = 1;
  double now_ = 0;
  double step_ = 0;
  double cache_ = 0;
  double tokens_ = 0;
  int64_t preempted_ = 0;
  std::deque<Slot> wait_;
  // By id, which grows with each admission; finished ones are cut off at both ends.
  std::deque<Slot> slots_;
  uint64_t first_id_ = 0;
  size_t alive_count_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends_;
  Random noise_;
  int64_t noise_second_ = -1;
  double noise_state_ = 0;
  double noise_factor_ = 1;
};

// A server that answers at once, so that the client is what limits: answers come in the order of
// the calls, at a rate that depends only on how many calls are in flight.
class InstantServer final : public ServerModel {
 public:
  struct Rate {
    int in_flight;
    double per_second;
  };
  // `rates` ascending; between them straight lines. `noise` as above, but from 100 ms to 100 ms.
  InstantServer(std::vector<Rate> rates, double noise, uint64_t seed);

  bool Submit(const Load::Request& request) override;
  void Advance(double until, std::vector<Finished>& finished) override;
  double now() const override { return now_; }
  double made() const override { return answered_; }
  int running() const override { return static_cast<int>(calls_.size()); }
  int waiting() const override { return 0; }

  double RateAt(int in_flight) const;

 private:
  const std::vector<Rate> rates_;
  const double noise_;
  Random random_;
  double now_ = 0;
  double next_noise_at_ = 0;
  double speed_ = 1;
  double answered_ = 0;
  std::deque<Finished> calls_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_SERVER_MODEL_H_
