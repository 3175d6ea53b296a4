// How many calls in flight each backend took when this data folder was last used, so that a worker
// need not find out anew. A small JSON file; losing it costs the time to learn.
#ifndef NIGHTSHIFT_WORKER_LEVEL_FILE_H_
#define NIGHTSHIFT_WORKER_LEVEL_FILE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace nightshift {

// A memory is a place to begin, no more: a little below it, so that a server that has become slower
// is not flooded.
inline constexpr double kRememberedShare = 0.75;
inline constexpr int kRememberedMax = 512;
inline constexpr absl::Duration kRememberedFor = absl::Hours(24 * 30);
// Of backends in one file; the oldest go.
inline constexpr int kRememberedBackendsMax = 256;

// Where to begin, from 1 to kRememberedMax, by the names that WriteLevels was given. Empty when
// there is no such file, or none that can be read: it is a convenience.
std::map<std::string, int> ReadFirstLevels(const std::string& path, absl::Time now);

// Puts the levels of these backends into the file, beside those of others; whole or not at all.
absl::Status WriteLevels(const std::string& path, const std::map<std::string, int>& levels,
                         absl::Time now);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_LEVEL_FILE_H_
