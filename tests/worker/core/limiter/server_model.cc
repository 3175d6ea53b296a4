#include "tests/worker/core/limiter/server_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nightshift {
namespace {

// The speed's logarithm from second to second.
constexpr double kNoiseMemory = 0.9;
// A hiccup of one second.
constexpr double kHiccupChance = 0.01;
constexpr double kHiccup = 1.5;

}  // namespace

Load::Load(uint64_t seed, LoadSpec spec) : Load(seed, spec, spec, 0) {}

Load::Load(uint64_t seed, LoadSpec spec, LoadSpec other, double share)
    : spec_(spec), other_(other), share_(share), random_(seed) {}

double Load::Draw(double mean, double cv, double low, double high) {
  if (cv <= 0) return mean;
  const double variance = std::log(1 + cv * cv);
  const double value = random_.LogNormal(mean * std::exp(-variance / 2), std::sqrt(variance));
  return std::floor(std::clamp(value, low, high));
}

Load::Request Load::Next() {
  const LoadSpec& spec = share_ > 0 && random_.Chance(share_) ? other_ : spec_;
  Request request;
  request.prompt = Draw(spec.prompt_mean, spec.prompt_cv, 8, 30000);
  request.output = Draw(spec.output_mean, spec.output_cv, 1, spec.output_max);
  return request;
}

BatchingServer::BatchingServer(const ServerSpec& spec) : spec_(spec), noise_(spec.noise_seed) {}

double BatchingServer::Wander() {
  if (spec_.noise <= 0) return 1;
  while (noise_second_ < static_cast<int64_t>(now_)) {
    ++noise_second_;
    noise_state_ = kNoiseMemory * noise_state_ +
                   noise_.Gaussian() * spec_.noise * std::sqrt(1 - kNoiseMemory * kNoiseMemory);
    noise_factor_ = std::exp(noise_state_) * (noise_.Chance(kHiccupChance) ? kHiccup : 1);
  }
  return noise_factor_;
}

double BatchingServer::StepTime() {
  return (spec_.fixed + spec_.per_request * running() + spec_.per_token * cache_) / speed_ *
         Wander();
}

BatchingServer::Slot* BatchingServer::Find(uint64_t id) {
  if (id < first_id_) return nullptr;
  Slot& slot = slots_[id - first_id_];
  return slot.alive ? &slot : nullptr;
}

bool BatchingServer::Submit(const Load::Request& request) {
  if (waiting() >= spec_.queue_max) return false;
  wait_.push_back({.started = now_, .request = request, .left = request.output});
  Admit();
  return true;
}

void BatchingServer::Admit() {
  while (!wait_.empty() && running() < spec_.slots) {
    const double need = wait_.front().request.prompt + wait_.front().made;
    if (cache_ + need + 16 > spec_.cache_tokens && alive_count_ > 0) return;
    Slot slot = wait_.front();
    wait_.pop_front();
    now_ += spec_.per_prompt_token * need / speed_;
    cache_ += need;
    slot.admitted_step = step_;
    slot.alive = true;
    slot.id = first_id_ + slots_.size();
    ends_.push({step_ + slot.left, slot.id});
    slots_.push_back(slot);
    ++alive_count_;
  }
}

void BatchingServer::Preempt() {
  auto youngest = slots_.rbegin();
  while (!youngest->alive) ++youngest;
  Slot slot = *youngest;
  const double done = step_ - slot.admitted_step;
  slot.made += done;
  slot.left -= done;
  cache_ -= slot.request.prompt + slot.made;
  // Its id stays used: the end that is planned for it must find it dead.
  youngest->alive = false;
  --alive_count_;
  ++preempted_;
  slot.alive = false;
  wait_.push_front(slot);
}

void BatchingServer::Progress(double steps, double seconds) {
  const double made = steps * static_cast<double>(alive_count_);
  step_ += steps;
  cache_ += made;
  tokens_ += made;
  now_ += seconds;
}

void BatchingServer::Advance(double until, std::vector<Finished>& finished) {
  finished.clear();
  while (now_ < until) {
    while (!ends_.empty() && Find(ends_.top().id) == nullptr) ends_.pop();
    if (alive_count_ == 0) {
      if (wait_.empty()) {
        now_ = until;
        return;
      }
      Admit();
      continue;
    }
    const double running = static_cast<double>(alive_count_);
    const double step_time = StepTime();
    const double to_end = ends_.top().step - step_;
    // The step's time changes with the cache: no further than 3 % of it, and no further than full.
    const double to_change = std::max(1.0, 0.03 * std::max(cache_, 1000.0) / running);
    const double to_full = std::max(1.0, (spec_.cache_tokens - cache_) / running);
    const double steps = std::min({to_end, to_change, to_full});
    const double possible = (until - now_) / step_time;
    if (possible < steps) {
      Progress(possible, until - now_);
      now_ = until;
      return;
    }
    Progress(steps, steps * step_time);
    if (cache_ >= spec_.cache_tokens - 1e-9 && alive_count_ > 1 && steps < to_end) {
      Preempt();
      continue;
    }
    while (!ends_.empty() && ends_.top().step <= step_ + 1e-6) {
      const uint64_t id = ends_.top().id;
      ends_.pop();
      Slot* slot = Find(id);
      if (slot == nullptr) continue;
      slot->alive = false;
      --alive_count_;
      cache_ -= slot->request.prompt + slot->request.output;
      finished.push_back({slot->started, slot->request});
    }
    while (!slots_.empty() && !slots_.front().alive) {
      slots_.pop_front();
      ++first_id_;
    }
    if (!finished.empty()) {
      Admit();
      return;
    }
  }
}

InstantServer::InstantServer(std::vector<Rate> rates, double noise, uint64_t seed)
    : rates_(std::move(rates)), noise_(noise), random_(seed) {}

double InstantServer::RateAt(int in_flight) const {
  if (in_flight <= rates_.front().in_flight) {
    return rates_.front().per_second * in_flight / rates_.front().in_flight;
  }
  for (size_t i = 1; i < rates_.size(); ++i) {
    const Rate& high = rates_[i];
    if (in_flight > high.in_flight) continue;
    const Rate& low = rates_[i - 1];
    return low.per_second + (high.per_second - low.per_second) * (in_flight - low.in_flight) /
                                (high.in_flight - low.in_flight);
  }
  return rates_.back().per_second;
}

bool InstantServer::Submit(const Load::Request& request) {
  calls_.push_back({now_, request});
  return true;
}

// The client's loop sees several answers at a time: a sixteenth of what is in flight.
void InstantServer::Advance(double until, std::vector<Finished>& finished) {
  finished.clear();
  if (calls_.empty()) {
    now_ = until;
    return;
  }
  if (now_ >= next_noise_at_) {
    next_noise_at_ = now_ + 0.1;
    speed_ = std::exp(noise_ * random_.Gaussian());
  }
  const size_t count = 1 + random_.Below(1 + calls_.size() / 8);
  now_ += static_cast<double>(count) / (RateAt(running()) * speed_);
  for (size_t i = 0; i < count && !calls_.empty(); ++i) {
    finished.push_back(calls_.front());
    calls_.pop_front();
    ++answered_;
  }
}

}  // namespace nightshift
