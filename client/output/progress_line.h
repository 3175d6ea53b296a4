// A job's progress as one line, for a terminal of some width, for a log, and for a program. Pure
// functions: the numbers come in, the text goes out.
#ifndef NIGHTSHIFT_CLIENT_OUTPUT_PROGRESS_LINE_H_
#define NIGHTSHIFT_CLIENT_OUTPUT_PROGRESS_LINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// What a line says. Counts are those of the job, whatever was done by an earlier run of it.
struct ProgressState {
  int64_t done = 0;  // requests with an outcome of any kind
  int64_t total = 0;
  int64_t failed = 0;
  int64_t retrying = 0;
  int64_t in_flight = 0;
  double requests_per_second = 0;
  double tokens_per_second = 0;  // completion tokens
  // Negative = unknown, and left out.
  double eta_low_seconds = -1;
  double eta_high_seconds = -1;
  std::optional<double> cost_usd;
  std::string state;        // "running", "paused", …: for JSON
  std::string waiting_for;  // in words; shown in place of the rates when not empty
  // In place of rates and ETA: "writing results", "paused (budget)". Empty while running.
  std::string phase;

  friend bool operator==(const ProgressState&, const ProgressState&) = default;
};

// What a job's status says, ready to be shown.
ProgressState ProgressOf(const v1::JobStatus& status);

// "42%": rounded down, and 100 only when all is done.
int PercentDone(int64_t done, int64_t total);

// One line without a line end for a terminal of `width` columns. It takes at most `width - 1`
// cells, since some terminals go on to the next line once the last cell is filled. The narrower,
// the fewer fields.
std::string TerminalProgressLine(const ProgressState& state, int width);

// "2026-11-30T01:20:10+01:00 42% 84731/200000 failed=521 …", without a line end.
std::string PlainProgressLine(const ProgressState& state, absl::Time now, absl::TimeZone zone);

// {"type":"status","t":"…","done":…}, without a line end.
std::string JsonProgressLine(const ProgressState& state, absl::Time now, absl::TimeZone zone);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_OUTPUT_PROGRESS_LINE_H_
