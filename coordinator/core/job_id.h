// The name of a job as people see it.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_JOB_ID_H_
#define NIGHTSHIFT_COORDINATOR_CORE_JOB_ID_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/random.h"

namespace nightshift {

inline constexpr absl::string_view kJobIdPrefix = "job_";
// After the prefix. Fewer characters than kJobIdCharsMin never name a job.
inline constexpr int kJobIdChars = 12;
inline constexpr int kJobIdCharsMin = 6;

// "job_" and twelve characters of Crockford's base 32 (no i, l, o, u: they are read as others).
// Six of chance come first, so that the beginning alone tells jobs of the same minute apart; six of
// the clock (seconds) follow, so that two ids can only be equal within one second.
std::string NewJobId(absl::Time wall, Random& random);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_JOB_ID_H_
