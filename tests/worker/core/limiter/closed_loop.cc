#include "tests/worker/core/limiter/closed_loop.h"

#include <algorithm>
#include <utility>

namespace nightshift {
namespace {

// How long the client looks away at most.
constexpr double kTick = 0.25;

MonotonicTime At(double seconds) {
  return MonotonicTime{1'000'000'000 + static_cast<int64_t>(seconds * 1e9)};
}

class Client {
 public:
  Client(ServerModel& server, Load load, Limiter& limiter, const LoopOptions& options)
      : server_(server), load_(std::move(load)), limiter_(limiter), options_(options) {}

  LoopResult Run() {
    double sample_at = options_.sample_every;
    double made = 0;
    auto event = options_.events.begin();
    std::vector<ServerModel::Finished> finished;
    while (server_.now() < options_.seconds) {
      double until = std::min(options_.seconds, server_.now() + kTick);
      if (event != options_.events.end()) {
        if (server_.now() >= event->at) {
          event->act(load_);
          ++event;
          continue;
        }
        until = std::min(until, event->at);
      }
      Fill();
      server_.Advance(until, finished);
      for (const ServerModel::Finished& call : finished) {
        OnFinished(call);
        Fill();
      }
      if (server_.now() >= sample_at) {
        result_.samples.push_back({server_.now(), limiter_.limit(),
                                   (server_.made() - made) / options_.sample_every,
                                   server_.running(), server_.waiting()});
        made = server_.made();
        sample_at += options_.sample_every;
      }
    }
    return std::move(result_);
  }

 private:
  void Fill() {
    while (in_flight_ < limiter_.limit()) {
      const MonotonicTime now = At(server_.now());
      limiter_.OnStart(now);
      if (server_.Submit(load_.Next())) {
        ++in_flight_;
      } else {
        ++result_.refused;
        limiter_.OnReject(now, in_flight_, now);
      }
    }
  }

  void OnFinished(const ServerModel::Finished& call) {
    --in_flight_;
    ++result_.answered;
    limiter_.OnFinish({.latency = absl::Seconds(server_.now() - call.started + options_.round_trip),
                       .prompt_tokens = static_cast<int64_t>(call.request.prompt),
                       .completion_tokens = static_cast<int64_t>(call.request.output),
                       .in_flight = in_flight_},
                      At(server_.now() + options_.round_trip));
  }

  ServerModel& server_;
  Load load_;
  Limiter& limiter_;
  const LoopOptions& options_;
  LoopResult result_;
  int in_flight_ = 0;
};

}  // namespace

LoopResult RunLoop(ServerModel& server, Load load, Limiter& limiter, const LoopOptions& options) {
  return Client(server, std::move(load), limiter, options).Run();
}

double LoopResult::PerSecond(double from, double to) const {
  double sum = 0;
  int count = 0;
  for (const Sample& sample : samples) {
    if (sample.at <= from || sample.at > to) continue;
    sum += sample.per_second;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

double LoopResult::Level(double from, double to) const {
  double sum = 0;
  int count = 0;
  for (const Sample& sample : samples) {
    if (sample.at <= from || sample.at > to) continue;
    sum += sample.level;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

int LoopResult::MedianWaiting(double from, double to) const {
  std::vector<int> waiting;
  for (const Sample& sample : samples) {
    if (sample.at > from && sample.at <= to) waiting.push_back(sample.waiting);
  }
  if (waiting.empty()) return 0;
  std::sort(waiting.begin(), waiting.end());
  return waiting[waiting.size() / 2];
}

int LoopResult::LevelAt(double at) const {
  for (const Sample& sample : samples) {
    if (sample.at >= at) return sample.level;
  }
  return samples.empty() ? 0 : samples.back().level;
}

}  // namespace nightshift
