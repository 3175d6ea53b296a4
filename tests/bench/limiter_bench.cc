// All limiters side by side on the models of tests/worker/core/limiter.
//
//     limiter_bench [NOISE [SEED [SERVERS]]]      default 0.12 1 40
//
// First the named servers over half an hour, then SERVERS random ones over an hour of model time.
// Throughput is relative to the best of a sweep of fixed levels on the same server; a figure above
// 1 says that the level between two of the sweep was better than both. Takes some seconds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/core/limiter/rivals.h"
#include "tests/worker/core/limiter/scenarios.h"
#include "worker/core/limiter.h"

namespace nightshift {
namespace {

struct Contender {
  std::string name;
  std::function<std::unique_ptr<Limiter>()> make;
  std::vector<double> settled = {};
  std::vector<double> whole = {};
  std::vector<double> waiting = {};
};

std::vector<Contender> Contenders() {
  return {{"fill", [] { return NewFillLimiter(); }},
          {"AIMD, 60 s", [] { return NewAimdLimiter(absl::Seconds(60)); }},
          {"AIMD, 5 s", [] { return NewAimdLimiter(absl::Seconds(5)); }},
          {"Vegas", [] { return NewVegasLimiter(); }},
          {"Gradient2", [] { return NewGradient2Limiter(); }},
          {"fixed 32", [] { return NewFixedLimiter(32); }},
          {"fixed 64", [] { return NewFixedLimiter(64); }},
          {"fixed 512", [] { return NewFixedLimiter(512); }}};
}

void RunNamed(double noise) {
  constexpr double kSeconds = 1800;
  constexpr double kSettled = 600;
  std::printf("named servers, noise %.0f %%: after 10 min / whole half hour / median waiting\n",
              100 * noise);
  for (const Scenario& scenario : NamedScenarios(noise)) {
    const BestFixed best = Sweep(scenario, kSeconds);
    std::printf("%s (best fixed level %d)\n", scenario.name.c_str(), best.level);
    for (const Contender& contender : Contenders()) {
      const auto limiter = contender.make();
      const LoopResult result = RunScenario(scenario, *limiter, 2, kSeconds);
      std::printf("  %-12s %6.3f %6.3f %5d   level %.0f\n", contender.name.c_str(),
                  result.PerSecond(kSettled) / best.per_second,
                  result.PerSecond(0) / best.per_second, result.MedianWaiting(kSettled),
                  result.Level(kSettled));
    }
  }
}

void RunRandom(double noise, uint64_t seed, int servers) {
  constexpr double kSeconds = 3600;
  constexpr double kSettled = 900;
  std::vector<Contender> contenders = Contenders();
  for (int i = 0; i < servers; ++i) {
    const Scenario scenario = RandomScenario(1000 * seed + static_cast<uint64_t>(i), noise);
    const BestFixed best = Sweep(scenario, 900);
    for (Contender& contender : contenders) {
      const auto limiter = contender.make();
      const LoopResult result = RunScenario(scenario, *limiter, 2, kSeconds);
      contender.settled.push_back(result.PerSecond(kSettled) / best.per_second);
      contender.whole.push_back(result.PerSecond(0) / best.per_second);
      contender.waiting.push_back(result.MedianWaiting(kSettled));
    }
  }
  std::printf("\n%d random servers, noise %.0f %%, seed %d\n", servers, 100 * noise,
              static_cast<int>(seed));
  std::printf("%-14s within 5 %%  worst  tenth  median  whole hour  waiting (median, 9 of 10)\n",
              "");
  for (Contender& contender : contenders) {
    const auto within = std::count_if(contender.settled.begin(), contender.settled.end(),
                                      [](double x) { return x >= 0.95; });
    for (auto* figures : {&contender.settled, &contender.whole, &contender.waiting}) {
      std::sort(figures->begin(), figures->end());
    }
    const auto part = [&](const std::vector<double>& figures, double share) {
      return figures[static_cast<size_t>(share * static_cast<double>(figures.size()))];
    };
    std::printf("%-14s %3d of %-3d  %6.3f %6.3f %6.3f   %6.3f    %6.0f %6.0f\n",
                contender.name.c_str(), static_cast<int>(within), servers,
                part(contender.settled, 0), part(contender.settled, 0.1),
                part(contender.settled, 0.5), part(contender.whole, 0.5),
                part(contender.waiting, 0.5), part(contender.waiting, 0.9));
  }
}

}  // namespace
}  // namespace nightshift

int main(int argc, char** argv) {
  const double noise = argc > 1 ? std::atof(argv[1]) : 0.12;
  const int seed = argc > 2 ? std::atoi(argv[2]) : 1;
  const int servers = argc > 3 ? std::atoi(argv[3]) : 40;
  nightshift::RunNamed(noise);
  nightshift::RunRandom(noise, static_cast<uint64_t>(seed), std::max(servers, 1));
}
