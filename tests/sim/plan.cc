#include "tests/sim/plan.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace nightshift::sim {
namespace {

struct FaultName {
  bool Faults::*on;
  const char* word;
};

constexpr FaultName kFaults[] = {
    {&Faults::worker_crash, "worker_crash"},
    {&Faults::worker_stop, "worker_stop"},
    {&Faults::worker_drain, "worker_drain"},
    {&Faults::coordinator_crash, "coordinator_crash"},
    {&Faults::coordinator_restart, "coordinator_restart"},
    {&Faults::coordinator_stop, "coordinator_stop"},
    {&Faults::link_cut, "link_cut"},
    {&Faults::partition, "partition"},
    {&Faults::slow_network, "slow_network"},
    {&Faults::small_streams, "small_streams"},
    {&Faults::slow_disk, "slow_disk"},
    {&Faults::disk_error, "disk_error"},
    {&Faults::disk_full, "disk_full"},
    {&Faults::backend_errors, "backend_errors"},
    {&Faults::backend_refusals, "backend_refusals"},
    {&Faults::backend_hangs, "backend_hangs"},
    {&Faults::backend_cuts, "backend_cuts"},
    {&Faults::backend_down, "backend_down"},
    {&Faults::poison, "poison"},
    {&Faults::commands, "commands"},
    {&Faults::clients_vanish, "clients_vanish"},
    {&Faults::deadlines, "deadlines"},
    {&Faults::limits, "limits"},
    {&Faults::bad_lines, "bad_lines"},
    {&Faults::clock_jumps, "clock_jumps"},
};

// Thrown by a generator of their own, so that the seeds from before they existed still mean the
// same worlds where they are off.
constexpr FaultName kNetworkFaults[] = {
    {&Faults::duplicated_messages, "duplicated_messages"},
    {&Faults::reordered_messages, "reordered_messages"},
    {&Faults::long_partition, "long_partition"},
};
constexpr double kNetworkFaultShare = 0.3;

absl::Duration Between(Random& random, absl::Duration low, absl::Duration high) {
  return low + (high - low) * random.Unit();
}

int UpTo(Random& random, int max) { return 1 + static_cast<int>(random.Below(max)); }

template <typename T>
T OneOf(Random& random, std::initializer_list<T> values) {
  return std::begin(values)[random.Below(values.size())];
}

void MakeFrugal(Plan* plan) {
  plan->frugal = true;
  plan->reclaim_grace = absl::Seconds(10);
  Faults& faults = plan->faults;
  faults.worker_crash = faults.worker_stop = faults.worker_drain = faults.poison = false;
  faults.coordinator_stop = faults.link_cut = faults.partition = false;
  faults.slow_network = faults.slow_disk = false;
  faults.duplicated_messages = faults.reordered_messages = faults.long_partition = false;
  // A job that runs again is called for again.
  faults.commands = false;
  faults.coordinator_crash = true;
}

}  // namespace

Plan Plan::Make(uint64_t seed) {
  Random random = PartRandom(seed, 1);
  Plan plan;
  plan.seed = seed;
  // From a calm world to one with nearly everything at once.
  const double share = OneOf(random, {0.0, 0.1, 0.25, 0.5, 0.5, 0.75, 0.9});
  for (const FaultName& fault : kFaults) plan.faults.*fault.on = random.Chance(share);

  plan.workers = UpTo(random, 4);
  plan.backends_per_worker = UpTo(random, 2);
  plan.jobs = UpTo(random, 8);
  plan.requests_max = OneOf(random, {3, 10, 40, 120, 300});
  plan.trouble = Between(random, absl::Seconds(10), absl::Seconds(200));
  plan.fault_gap = OneOf(
      random, {absl::Milliseconds(300), absl::Seconds(1), absl::Seconds(4), absl::Seconds(15)});

  plan.lease_ttl = OneOf(random, {absl::Seconds(6), absl::Seconds(15), absl::Seconds(30)});
  plan.reclaim_grace =
      OneOf(random, {absl::ZeroDuration(), absl::Seconds(2), absl::Seconds(10), absl::Seconds(10)});
  plan.deltas_per_chunk_max = OneOf(random, {0, 1, 3, 64});
  plan.commit_results_max = OneOf(random, {1, 4, 4096});
  plan.outbox_requests_max = OneOf(random, {3, 20, 65536});
  plan.results_per_message_max = OneOf(random, {1, 5, 1024});
  Random network_random = PartRandom(seed, 2);
  for (const FaultName& fault : kNetworkFaults) {
    plan.faults.*fault.on = network_random.Chance(share > 0 ? kNetworkFaultShare : 0);
  }
  if (random.Chance(0.15)) MakeFrugal(&plan);
  // A stalled sync, or the whole process standing still, may lie between plan and sending.
  plan.stop_patience = plan.faults.slow_disk || plan.faults.coordinator_stop
                           ? absl::InfiniteDuration()
                           : absl::Seconds(5);
  if (plan.faults.small_streams) plan.stream_bytes_max = OneOf<size_t>(random, {300, 2000, 20000});
  // Last, so that the seeds from before there was such a thing keep the rest of their worlds.
  if (!plan.frugal) plan.faults.power_cut = random.Chance(share / 2);
  return plan;
}

bool Plan::SeesAllDeaths() const {
  return !faults.worker_stop && !faults.worker_drain && !faults.link_cut && !faults.partition &&
         !faults.coordinator_stop && !faults.slow_network && !faults.small_streams &&
         !faults.duplicated_messages && !faults.reordered_messages && !faults.long_partition;
}

std::string Plan::Describe() const {
  std::string text =
      absl::StrCat(frugal ? "frugal, " : "", workers, " workers with ", backends_per_worker,
                   " backends, ", jobs, " jobs of up to ", requests_max, " requests, trouble for ",
                   absl::FormatDuration(absl::Trunc(trouble, absl::Seconds(1))), ":");
  std::string words;
  const auto add = [&](const FaultName& fault) {
    if (faults.*fault.on) absl::StrAppend(&words, " ", fault.word);
  };
  for (const FaultName& fault : kFaults) add(fault);
  for (const FaultName& fault : kNetworkFaults) add(fault);
  if (faults.power_cut) absl::StrAppend(&words, " power_cut");
  absl::StrAppend(&text, words.empty() ? " none" : words);
  return text;
}

Random PartRandom(uint64_t seed, uint64_t part) {
  // Odd multipliers keep different parts of equal seeds, and equal parts of different seeds, apart.
  return Random(seed * 0x9e3779b97f4a7c15ULL + part * 0xd1342543de82ef95ULL);
}

}  // namespace nightshift::sim
