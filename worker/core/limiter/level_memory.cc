#include "worker/core/limiter/level_memory.h"

#include <cmath>
#include <iterator>

namespace nightshift {
namespace {

constexpr absl::Duration kEntryAgeMax = absl::Minutes(30);
constexpr double kNewWeight = 0.3;
// Levels that differ by less than about this share an entry.
constexpr double kStep = 0.08;

int KeyOf(int level) { return static_cast<int>(std::lround(std::log(level) / kStep)); }

}  // namespace

void LevelMemory::Add(int level, double throughput, bool solid, MonotonicTime now) {
  std::erase_if(entries_, [&](const auto& entry) { return now - entry.second.at > kEntryAgeMax; });
  auto [entry, is_new] = entries_.try_emplace(KeyOf(level));
  Entry& known = entry->second;
  if (known.solid && !solid) return;
  if (is_new || (solid && !known.solid)) {
    known.throughput = throughput;
  } else {
    known.throughput += kNewWeight * (throughput - known.throughput);
  }
  known.level = level;
  known.solid = solid;
  known.at = now;
}

std::optional<LevelMemory::Entry> LevelMemory::Best() const {
  std::optional<Entry> best;
  for (const auto& [key, entry] : entries_) {
    if (!entry.solid) continue;
    if (!best.has_value() || entry.throughput > best->throughput) best = entry;
  }
  return best;
}

std::optional<double> LevelMemory::Expect(int level) const {
  const auto above = entries_.lower_bound(KeyOf(level));
  if (above == entries_.end()) return std::nullopt;
  if (above->first == KeyOf(level)) return above->second.throughput;
  if (above == entries_.begin()) return std::nullopt;
  const Entry& high = above->second;
  const Entry& low = std::prev(above)->second;
  const double part = std::log(static_cast<double>(level) / low.level) /
                      std::log(static_cast<double>(high.level) / low.level);
  return low.throughput * std::pow(high.throughput / low.throughput, part);
}

void LevelMemory::Forget(int level) {
  std::erase_if(entries_, [&](const auto& entry) {
    return std::abs(std::log(static_cast<double>(entry.second.level) / level)) < 0.2;
  });
}

}  // namespace nightshift
