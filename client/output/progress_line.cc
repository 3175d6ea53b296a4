#include "client/output/progress_line.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/units.h"
#include "client/output/text_width.h"

namespace nightshift {
namespace {

// From these widths on there is room for the long and the middle form at common numbers.
constexpr int kWideFrom = 96;
constexpr int kMiddleFrom = 77;
// A range is shown when its ends are this far apart; else its middle says it all.
constexpr double kRangeFactor = 1.25;
constexpr double kRangeSeconds = 60;
// Thirty years; any larger estimate is none.
constexpr double kSecondsShownMax = 1e9;

// 9,999 as it is, 84731 -> "84.7k", 200000 -> "200k".
std::string CountText(int64_t number) {
  if (number < 10'000) return WithCommas(number);
  std::string text = ShortCount(static_cast<double>(number));
  const size_t zero = text.find(".0");
  if (zero != std::string::npos) text.erase(zero, 2);
  return text;
}

std::string RateText(double rate) {
  if (rate < 99.95) return absl::StrFormat("%.1f", rate);
  if (rate < 999.5) return absl::StrFormat("%.0f", rate);
  if (rate < 9'995) return absl::StrFormat("%.1fk", rate / 1e3);
  return ShortCount(rate);
}

std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, kSecondsShownMax)));
  return whole < 60 ? absl::StrCat(whole, "s") : HumanDuration(absl::Seconds(whole));
}

bool EtaKnown(const ProgressState& state) {
  return state.eta_low_seconds >= 0 && state.eta_high_seconds >= 0 && state.done < state.total;
}

double EtaMiddle(const ProgressState& state) {
  return (state.eta_low_seconds + state.eta_high_seconds) / 2;
}

bool EtaIsRange(const ProgressState& state) {
  return state.eta_high_seconds > kRangeFactor * state.eta_low_seconds &&
         state.eta_high_seconds - state.eta_low_seconds > kRangeSeconds;
}

// What stands in place of rates and ETA, if anything does.
std::string Instead(const ProgressState& state) {
  if (!state.waiting_for.empty()) {
    return absl::StrCat(state.phase.empty() ? "waiting" : Printable(state.phase), ": ",
                        Printable(state.waiting_for));
  }
  return Printable(state.phase);
}

std::string Percent(const ProgressState& state) {
  return absl::StrCat(PercentDone(state.done, state.total), "%");
}

std::string WideLine(const ProgressState& state) {
  std::vector<std::string> parts = {
      Percent(state), absl::StrCat(WithCommas(state.done), "/", WithCommas(state.total)),
      absl::StrCat(WithCommas(state.failed), " failed")};
  if (state.retrying > 0) parts.push_back(absl::StrCat(WithCommas(state.retrying), " retrying"));
  if (const std::string instead = Instead(state); !instead.empty()) {
    parts.push_back(instead);
    return absl::StrJoin(parts, "  ");
  }
  parts.push_back(absl::StrCat(RateText(state.requests_per_second), " req/s"));
  parts.push_back(absl::StrCat(RateText(state.tokens_per_second), " tok/s"));
  parts.push_back(absl::StrCat(WithCommas(state.in_flight), " in flight"));
  if (EtaKnown(state)) {
    parts.push_back(EtaIsRange(state) ? absl::StrCat("ETA ", DurationText(state.eta_low_seconds),
                                                     "-", DurationText(state.eta_high_seconds))
                                      : absl::StrCat("ETA ", DurationText(EtaMiddle(state))));
  }
  return absl::StrJoin(parts, "  ");
}

std::string MiddleLine(const ProgressState& state) {
  std::string line = absl::StrCat(Percent(state), " ", CountText(state.done), "/",
                                  CountText(state.total), "  ", CountText(state.failed), " failed");
  if (state.retrying > 0) absl::StrAppend(&line, " ", CountText(state.retrying), " retry");
  if (const std::string instead = Instead(state); !instead.empty()) {
    absl::StrAppend(&line, "  ", instead);
    return line;
  }
  absl::StrAppend(&line, "  ", RateText(state.requests_per_second), "/s ",
                  RateText(state.tokens_per_second), " tok/s  ", CountText(state.in_flight),
                  " open");
  if (EtaKnown(state)) absl::StrAppend(&line, "  ETA ", DurationText(EtaMiddle(state)));
  return line;
}

std::string NarrowLine(const ProgressState& state) {
  std::string line = absl::StrCat(Percent(state), " ", CountText(state.done), "/",
                                  CountText(state.total), " ", CountText(state.failed), " failed");
  if (const std::string instead = Instead(state); !instead.empty()) {
    absl::StrAppend(&line, " ", instead);
    return line;
  }
  absl::StrAppend(&line, " ", RateText(state.requests_per_second), "/s");
  if (EtaKnown(state)) absl::StrAppend(&line, " ETA ", DurationText(EtaMiddle(state)));
  return line;
}

std::string TimeText(absl::Time now, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%S%Ez", now, zone);
}

// With `digits` behind the point at most and no zeros at the end: always a JSON number.
std::string NumberText(double value, int digits) {
  if (!std::isfinite(value)) value = 0;
  std::string text = absl::StrFormat("%.*f", digits, value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string Quoted(absl::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

std::string StateWord(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_VALIDATING:
      return "validating";
    case v1::JOB_STATE_QUEUED:
      return "queued";
    case v1::JOB_STATE_RUNNING:
      return "running";
    case v1::JOB_STATE_PAUSED:
      return "paused";
    case v1::JOB_STATE_FINALIZING:
      return "finalizing";
    case v1::JOB_STATE_COMPLETED:
      return "completed";
    case v1::JOB_STATE_FAILED:
      return "failed";
    case v1::JOB_STATE_CANCELLING:
      return "cancelling";
    case v1::JOB_STATE_CANCELLED:
      return "cancelled";
    case v1::JOB_STATE_EXPIRED:
      return "expired";
    default:
      return "unknown";
  }
}

std::string PhaseOf(const v1::JobStatus& status) {
  switch (status.state()) {
    case v1::JOB_STATE_RUNNING:
      return "";
    case v1::JOB_STATE_VALIDATING:
      return "checking the input";
    case v1::JOB_STATE_FINALIZING:
      return "writing results";
    case v1::JOB_STATE_PAUSED:
      switch (status.reason()) {
        case v1::PAUSE_REASON_BUDGET:
          return "paused (budget)";
        case v1::PAUSE_REASON_ERRORS:
          return "paused (errors)";
        case v1::PAUSE_REASON_DISK:
          return "paused (disk)";
        default:
          return "paused";
      }
    default:
      return StateWord(status.state());
  }
}

}  // namespace

ProgressState ProgressOf(const v1::JobStatus& status) {
  const v1::Counts& counts = status.counts();
  ProgressState state;
  state.done = counts.succeeded() + counts.failed() + counts.cancelled() + counts.expired();
  state.total = counts.total();
  state.failed = counts.failed();
  state.retrying = counts.retrying();
  state.in_flight = counts.in_flight();
  state.requests_per_second = status.requests_per_second();
  state.tokens_per_second = status.tokens_per_second();
  state.eta_low_seconds = status.eta_low_seconds();
  state.eta_high_seconds = status.eta_high_seconds();
  if (status.cost_known()) state.cost_usd = status.cost_usd();
  state.state = StateWord(status.state());
  state.waiting_for = status.waiting_for();
  state.phase = PhaseOf(status);
  return state;
}

int PercentDone(int64_t done, int64_t total) {
  if (total <= 0) return 0;
  if (done >= total) return 100;
  done = std::max<int64_t>(done, 0);
  // The exact product may not fit; at such a size the quotient of the parts is as good.
  const int64_t percent = done <= INT64_MAX / 100 ? done * 100 / total : done / (total / 100);
  return static_cast<int>(std::min<int64_t>(percent, 99));
}

std::string TerminalProgressLine(const ProgressState& state, int width) {
  const int room = std::max(width - 1, 0);
  if (width >= kWideFrom) {
    std::string line = WideLine(state);
    if (DisplayWidth(line) <= room) return line;
  }
  if (width >= kMiddleFrom) {
    std::string line = MiddleLine(state);
    if (DisplayWidth(line) <= room) return line;
  }
  return CutToWidth(NarrowLine(state), room);
}

std::string PlainProgressLine(const ProgressState& state, absl::Time now, absl::TimeZone zone) {
  std::string line = absl::StrCat(
      TimeText(now, zone), " ", Percent(state), " ", state.done, "/", state.total,
      " failed=", state.failed, " retrying=", state.retrying,
      " req_s=", NumberText(state.requests_per_second, 1),
      " tok_s=", NumberText(state.tokens_per_second, 0), " in_flight=", state.in_flight);
  if (EtaKnown(state)) absl::StrAppend(&line, " eta_s=", NumberText(EtaMiddle(state), 0));
  if (!state.state.empty() && state.state != "running") {
    absl::StrAppend(&line, " state=", state.state);
  }
  if (!state.waiting_for.empty()) absl::StrAppend(&line, " waiting=", Quoted(state.waiting_for));
  return line;
}

std::string JsonProgressLine(const ProgressState& state, absl::Time now, absl::TimeZone zone) {
  return absl::StrCat(
      "{\"type\":\"status\",\"t\":\"", TimeText(now, zone), "\",\"done\":", state.done,
      ",\"total\":", state.total, ",\"failed\":", state.failed, ",\"retrying\":", state.retrying,
      ",\"in_flight\":", state.in_flight, ",\"req_s\":", NumberText(state.requests_per_second, 3),
      ",\"tok_s\":", NumberText(state.tokens_per_second, 1), ",\"eta_s\":",
      EtaKnown(state) ? absl::StrCat("[", NumberText(state.eta_low_seconds, 0), ",",
                                     NumberText(state.eta_high_seconds, 0), "]")
                      : "null",
      ",\"cost_usd\":", state.cost_usd ? NumberText(*state.cost_usd, 6) : "null",
      ",\"state\":", Quoted(state.state),
      ",\"why\":", state.waiting_for.empty() ? "null" : Quoted(state.waiting_for), "}");
}

}  // namespace nightshift
