// Runs simulated worlds:
//
//   simulation --seeds 1..300        one world for each seed
//   simulation --seed 4711 --trace   one, with all that happens in it
//
// Seeds are decimal, or hexadecimal after 0x. Stops at the first world in which something did not
// hold, says what, and how to see it again. Exit status 0: everything held; 1: not; 2: usage.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "tests/sim/world.h"

namespace nightshift::sim {
namespace {

struct Range {
  uint64_t first = 0;
  uint64_t last = 0;
};

struct Arguments {
  std::vector<Range> seeds;
  bool trace = false;
};

// What to do about the present seed, for a program that ends in the middle of it.
char g_replay[256];

void OnAbort(int) {
  // Only what a signal handler may do.
  const auto ignored = write(STDERR_FILENO, g_replay, std::strlen(g_replay));
  static_cast<void>(ignored);
}

bool ParseSeed(const std::string& text, uint64_t* seed) {
  if (text.size() > 2 && text.substr(0, 2) == "0x") {
    return absl::SimpleHexAtoi(text.substr(2), seed);
  }
  return absl::SimpleAtoi(text, seed);
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--trace") {
      arguments->trace = true;
      continue;
    }
    if ((argument != "--seed" && argument != "--seeds") || ++i == argc) return false;
    const std::vector<std::string> parts = absl::StrSplit(argv[i], ',');
    for (const std::string& part : parts) {
      const std::vector<std::string> ends = absl::StrSplit(part, "..");
      Range range;
      if (ends.size() > 2 || !ParseSeed(ends.front(), &range.first)) return false;
      if (!ParseSeed(ends.back(), &range.last) || range.last < range.first) return false;
      arguments->seeds.push_back(range);
    }
  }
  return !arguments->seeds.empty();
}

bool RunSeed(const char* program, uint64_t seed, bool trace, WorldReport* total) {
  std::snprintf(
      g_replay, sizeof(g_replay), "in the world of seed %llu; again with: %s --seed %llu\n",
      static_cast<unsigned long long>(seed), program, static_cast<unsigned long long>(seed));
  const Plan plan = Plan::Make(seed);
  if (trace) std::fprintf(stderr, "%s\n", plan.Describe().c_str());
  World world(plan, trace);
  const WorldReport report = world.Run();
  total->events += report.events;
  total->commits += report.commits;
  total->outcomes += report.outcomes;
  total->calls += report.calls;
  total->copies += report.copies;
  total->recalled += report.recalled;
  total->coordinator_runs += report.coordinator_runs;
  total->worker_runs += report.worker_runs;
  total->duration += report.duration;
  if (trace) {
    std::fprintf(stderr, "seed %llu: fingerprint %016llx\n", static_cast<unsigned long long>(seed),
                 static_cast<unsigned long long>(report.fingerprint));
  }
  if (report.violation.empty()) return true;
  if (!trace) {
    for (const std::string& line : report.last_lines) std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fprintf(stderr, "seed %llu (%s)\nafter %s: %s\nagain with: %s --seed %llu --trace\n",
               static_cast<unsigned long long>(seed), plan.Describe().c_str(),
               absl::FormatDuration(report.duration).c_str(), report.violation.c_str(), program,
               static_cast<unsigned long long>(seed));
  return false;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(stderr, "usage: %s --seed N | --seeds A..B[,C..D] [--trace]\n", argv[0]);
    return 2;
  }
  SetLogLevel(arguments.trace ? LogLevel::kInfo : LogLevel::kOff);
  std::signal(SIGABRT, OnAbort);
  const absl::Time begin = absl::Now();
  WorldReport total;
  int64_t worlds = 0;
  for (const Range& range : arguments.seeds) {
    for (uint64_t seed = range.first;; ++seed) {
      if (!RunSeed(argv[0], seed, arguments.trace, &total)) return 1;
      ++worlds;
      if (seed == range.last) break;
    }
  }
  std::printf(
      "%lld worlds, everything held: %s simulated in %s; %lld events, %lld commits, %lld calls, "
      "%lld of them second ones, %lld requests recalled, %lld outcomes, %d runs of the "
      "coordinator, "
      "%d of workers\n",
      static_cast<long long>(worlds), absl::FormatDuration(total.duration).c_str(),
      absl::FormatDuration(absl::Now() - begin).c_str(), static_cast<long long>(total.events),
      static_cast<long long>(total.commits), static_cast<long long>(total.calls),
      static_cast<long long>(total.copies), static_cast<long long>(total.recalled),
      static_cast<long long>(total.outcomes), total.coordinator_runs, total.worker_runs);
  return 0;
}

}  // namespace
}  // namespace nightshift::sim

int main(int argc, char** argv) { return nightshift::sim::Main(argc, argv); }
