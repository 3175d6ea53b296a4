// Durations, sizes and numbers as people type and read them.
#ifndef NIGHTSHIFT_BASE_UNITS_H_
#define NIGHTSHIFT_BASE_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace nightshift {

// "500ms", "30s", "5m", "8h", "2d", "1h30m"; 0 to 3650 days. InvalidArgument names the text.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// "512", "64KiB", "16MiB", "2GiB", "10MB" (decimal units are powers of 1000); not negative.
absl::StatusOr<int64_t> ParseSize(absl::string_view text);

// 1204 -> "1,204".
std::string WithCommas(int64_t number);
// 84731 -> "84.7k", 2500000 -> "2.5M"; below 10,000 as it is.
std::string ShortCount(double number);
// "4.3 s", "2m10s", "5h12m", "3d4h": two units at most.
std::string HumanDuration(absl::Duration d);
// "64 B", "1.5 KiB", "2.0 GiB".
std::string HumanSize(int64_t bytes);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_UNITS_H_
