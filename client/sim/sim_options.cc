#include "client/sim/sim_options.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

// Beyond these, sums in the engine could leave their types, or a start take for ever.
constexpr int64_t kTokensMax = int64_t{1} << 40;
constexpr int kSlotsMax = 100000;
constexpr int kConnectionsMax = 32768;

absl::Status InRange(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " ", value, ": give a number from ", low, " to ", high));
}

absl::Status IsChance(absl::string_view flag, double value) {
  if (value >= 0 && value <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " ", value, ": give a chance from 0 to 1"));
}

absl::Status ValidateFaults(const SimFaultRates& faults) {
  RETURN_IF_ERROR(IsChance("fault-429", faults.too_many));
  RETURN_IF_ERROR(IsChance("fault-500", faults.internal));
  RETURN_IF_ERROR(IsChance("fault-drop", faults.drop));
  RETURN_IF_ERROR(IsChance("fault-hang", faults.hang));
  RETURN_IF_ERROR(IsChance("fault-slow", faults.slow));
  const double sum = faults.too_many + faults.internal + faults.drop + faults.hang + faults.slow;
  if (sum > 1.0 + 1e-9) {
    return absl::InvalidArgumentError(
        absl::StrCat("the --fault-… rates add up to ", sum, ": at most 1 in all"));
  }
  return absl::OkStatus();
}

absl::Status ValidateGpu(const SimGpuOptions& gpu) {
  RETURN_IF_ERROR(InRange("slots", gpu.slots, 1, kSlotsMax));
  RETURN_IF_ERROR(InRange("kv-tokens", gpu.kv_tokens, 16, kTokensMax));
  RETURN_IF_ERROR(InRange("queue-max", gpu.queue_max, 0, kTokensMax));
  if (gpu.step_base + gpu.step_per_call <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--step-time 0s: a step must take some time");
  }
  if (gpu.noise < 0 || gpu.noise > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("--noise ", gpu.noise, ": give a number from 0 to 2"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCerebras(const SimCerebrasOptions& cerebras) {
  if (!(cerebras.tokens_per_second > 0) || !(cerebras.prompt_tokens_per_second > 0)) {
    return absl::InvalidArgumentError("--tokens-per-second must be above 0");
  }
  RETURN_IF_ERROR(InRange("requests-per-minute", cerebras.requests_per_minute, 0, kTokensMax));
  RETURN_IF_ERROR(InRange("tokens-per-minute", cerebras.tokens_per_minute, 0, kTokensMax));
  RETURN_IF_ERROR(InRange("requests-per-day", cerebras.requests_per_day, 0, kTokensMax));
  RETURN_IF_ERROR(InRange("tokens-per-day", cerebras.tokens_per_day, 0, kTokensMax));
  return InRange("in-flight-max", cerebras.in_flight_max, 0, kTokensMax);
}

}  // namespace

absl::string_view SimProfileName(SimProfile profile) {
  switch (profile) {
    case SimProfile::kInstant:
      return "instant";
    case SimProfile::kGpu:
      return "gpu";
    case SimProfile::kCerebras:
      return "cerebras";
  }
  return "";
}

absl::Status ValidateSimOptions(const SimServerOptions& options) {
  RETURN_IF_ERROR(InRange("context-tokens", options.context_tokens, 1, kTokensMax));
  RETURN_IF_ERROR(InRange("reply-tokens", options.reply_tokens, 0, 1000000));
  RETURN_IF_ERROR(InRange("connections-max", options.connections_max, 1, kConnectionsMax));
  if (options.reply_spread < 0 || options.reply_spread > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("--reply-spread ", options.reply_spread, ": give a number from 0 to 3"));
  }
  RETURN_IF_ERROR(ValidateFaults(options.faults));
  RETURN_IF_ERROR(ValidateGpu(options.gpu));
  return ValidateCerebras(options.cerebras);
}

}  // namespace nightshift
