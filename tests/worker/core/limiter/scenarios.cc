#include "tests/worker/core/limiter/scenarios.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {
namespace {

constexpr int kLevels[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768};
constexpr uint64_t kSweepSeed = 1;

}  // namespace

std::vector<Scenario> NamedScenarios(double noise) {
  std::vector<Scenario> all(8);
  all[0].name = "A small model";
  all[0].server = {.fixed = 0.006,
                   .per_request = 0.00003,
                   .per_token = 1.2e-8,
                   .per_prompt_token = 0.000012,
                   .slots = 256,
                   .cache_tokens = 600'000};
  all[0].load = {.prompt_mean = 500, .prompt_cv = 0.8, .output_mean = 300, .output_cv = 1.0};
  all[1].name = "B full cache";
  all[1].server = {.fixed = 0.025,
                   .per_request = 0.00012,
                   .per_token = 6e-8,
                   .per_prompt_token = 0.0001,
                   .slots = 256,
                   .cache_tokens = 120'000};
  all[1].load = {.prompt_mean = 600, .prompt_cv = 0.6, .output_mean = 500, .output_cv = 0.8};
  all[2].name = "C eight slots";
  all[2].server = {.fixed = 0.014,
                   .per_request = 0.0035,
                   .per_token = 1e-7,
                   .per_prompt_token = 0.0003,
                   .slots = 8,
                   .cache_tokens = 1e7};
  all[2].load = {.prompt_mean = 200, .prompt_cv = 0.5, .output_mean = 150, .output_cv = 0.8};
  all[3].name = "D long prompts";
  all[3].server = {.fixed = 0.008,
                   .per_request = 0.00004,
                   .per_token = 2e-8,
                   .per_prompt_token = 0.00004,
                   .slots = 256,
                   .cache_tokens = 800'000};
  all[3].load = {.prompt_mean = 3000, .prompt_cv = 0.5, .output_mean = 20, .output_cv = 0.5};
  all[4].name = "E long answers";
  all[4].server = {.fixed = 0.018,
                   .per_request = 0.0001,
                   .per_token = 4e-8,
                   .per_prompt_token = 0.00005,
                   .slots = 128,
                   .cache_tokens = 500'000};
  all[4].load = {.prompt_mean = 300,
                 .prompt_cv = 0.5,
                 .output_mean = 1500,
                 .output_cv = 0.6,
                 .output_max = 4096};
  all[5].name = "F flat";
  all[5].server = {.fixed = 0.0023,
                   .per_request = 0.0057,
                   .per_token = 1e-7,
                   .per_prompt_token = 0.0006,
                   .slots = 32,
                   .cache_tokens = 1e6};
  all[5].load = {
      .prompt_mean = 40, .prompt_cv = 0.5, .output_mean = 20, .output_cv = 0.6, .output_max = 64};
  all[6].name = "G no slots";
  all[6].server = {.fixed = 0.01,
                   .per_request = 0.0008,
                   .per_token = 1e-8,
                   .per_prompt_token = 0.00002,
                   .slots = 1024,
                   .cache_tokens = 1e7};
  all[6].load = {.prompt_mean = 300, .prompt_cv = 0.6, .output_mean = 200, .output_cv = 0.9};
  all[7].name = "H thrashing";
  all[7].server = {.fixed = 0.02,
                   .per_request = 0.0002,
                   .per_token = 1e-7,
                   .per_prompt_token = 0.0005,
                   .slots = 256,
                   .cache_tokens = 60'000};
  all[7].load = {.prompt_mean = 200, .prompt_cv = 0.5, .output_mean = 900, .output_cv = 0.6};
  for (Scenario& scenario : all) scenario.server.noise = noise;
  return all;
}

Scenario Named(char letter, double noise) {
  for (const Scenario& scenario : NamedScenarios(noise)) {
    if (scenario.name[0] == letter) return scenario;
  }
  CheckFailed(__FILE__, __LINE__, "letter", "no such scenario");
}

Scenario RandomScenario(uint64_t seed, double noise) {
  Random random(seed);
  auto between = [&](double low, double high) { return low + (high - low) * random.Unit(); };
  auto scale = [&](double low, double high) {
    return std::exp(between(std::log(low), std::log(high)));
  };
  auto load = [&] {
    LoadSpec spec;
    spec.prompt_mean = scale(50, 4000);
    spec.prompt_cv = between(0.2, 1.2);
    spec.output_mean = scale(8, 1500);
    spec.output_cv = between(0.1, 1.3);
    spec.output_max = 4096;
    return spec;
  };
  Scenario scenario;
  scenario.name = absl::StrCat("random ", seed);
  scenario.server.fixed = scale(0.002, 0.04);
  scenario.server.per_request = scale(1e-5, 8e-3);
  scenario.server.per_token = scale(3e-9, 2e-7);
  scenario.server.per_prompt_token = scale(5e-6, 6e-4);
  scenario.server.slots = static_cast<int>(scale(6, 1024));
  scenario.server.cache_tokens = scale(3e4, 2e6);
  scenario.server.noise = noise;
  scenario.load = load();
  scenario.other_load = load();
  scenario.other_share = random.Chance(0.4) ? random.Unit() : 0;
  const double tokens = scenario.load.prompt_mean + scenario.load.output_mean;
  if (scenario.server.cache_tokens < 4.5 * tokens) scenario.server.cache_tokens = 6 * tokens;
  return scenario;
}

LoopResult RunScenario(const Scenario& scenario, Limiter& limiter, uint64_t seed, double seconds) {
  BatchingServer server(scenario.server);
  LoopOptions options;
  options.seconds = seconds;
  return RunLoop(server, scenario.MakeLoad(seed), limiter, options);
}

BestFixed Sweep(const Scenario& scenario, double seconds) {
  BestFixed best;
  for (const int level : kLevels) {
    // More would only stand in its queue.
    if (level > 1.6 * scenario.server.slots + 8) break;
    const auto limiter = NewFixedLimiter(level);
    const double per_second =
        RunScenario(scenario, *limiter, kSweepSeed, seconds).PerSecond(0.35 * seconds);
    if (per_second > best.per_second) best = {level, per_second};
  }
  return best;
}

}  // namespace nightshift
