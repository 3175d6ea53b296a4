#include "client/sim/sim_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/units.h"

namespace nightshift {
namespace {

using Text = absl::string_view;

absl::Status Bad(Text name, Text text, Text wanted) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, " ", text, ": ", wanted));
}

struct Binding {
  SimFlag flag;
  std::function<absl::Status(SimServerOptions&, Text name, Text text)> set;
};

// `where` picks the member out of the options.
template <typename Where>
Binding Int(const char* name, const char* default_text, const char* help, Where where) {
  return {{name, SimFlagType::kInt, "N", default_text, help},
          [where](SimServerOptions& options, Text flag, Text text) {
            int64_t value = 0;
            if (!absl::SimpleAtoi(text, &value)) return Bad(flag, text, "give a whole number");
            auto& member = where(options);
            member = static_cast<std::decay_t<decltype(member)>>(value);
            if (static_cast<int64_t>(member) != value) return Bad(flag, text, "too large a number");
            return absl::OkStatus();
          }};
}

template <typename Where>
Binding Number(const char* name, const char* default_text, const char* help, Where where) {
  return {{name, SimFlagType::kNumber, "X", default_text, help},
          [where](SimServerOptions& options, Text flag, Text text) {
            if (!absl::SimpleAtod(text, &where(options))) return Bad(flag, text, "give a number");
            return absl::OkStatus();
          }};
}

template <typename Where>
Binding Time(const char* name, const char* default_text, const char* help, Where where) {
  return {{name, SimFlagType::kDuration, "DURATION", default_text, help},
          [where](SimServerOptions& options, Text flag, Text text) {
            const absl::StatusOr<absl::Duration> value = ParseDuration(text);
            if (!value.ok()) return Bad(flag, text, "write a duration such as 8ms, 0.5ms or 2s");
            where(options) = *value;
            return absl::OkStatus();
          }};
}

template <typename Where>
Binding Switch(const char* name, const char* default_text, const char* help, Where where) {
  return {{name, SimFlagType::kSwitch, "", default_text, help},
          [where](SimServerOptions& options, Text flag, Text text) {
            if (!absl::SimpleAtob(text, &where(options))) {
              return Bad(flag, text, "give true or false");
            }
            return absl::OkStatus();
          }};
}

absl::Status SetProfile(SimServerOptions& options, Text flag, Text text) {
  for (const SimProfile profile : {SimProfile::kInstant, SimProfile::kGpu, SimProfile::kCerebras}) {
    if (text == SimProfileName(profile)) {
      options.profile = profile;
      return absl::OkStatus();
    }
  }
  return Bad(flag, text, "give instant, gpu or cerebras");
}

absl::Status SetKeyFile(SimServerOptions& options, Text flag, Text text) {
  std::ifstream file{std::string(text)};
  std::ostringstream contents;
  contents << file.rdbuf();
  options.api_key = std::string(absl::StripAsciiWhitespace(contents.str()));
  if (!file || options.api_key.empty()) return Bad(flag, text, "cannot read a key from this file");
  return absl::OkStatus();
}

#define OPTION(member) \
  [](SimServerOptions & o) -> auto& { return o.member; }

std::vector<Binding> MakeBindings() {
  return {
      {{"listen", SimFlagType::kText, "HOST:PORT", "127.0.0.1:0",
        "where to listen; 0 picks a port"},
       [](SimServerOptions& o, Text, Text text) {
         o.listen = std::string(text);
         return absl::OkStatus();
       }},
      {{"profile", SimFlagType::kChoice, "instant|gpu|cerebras", "instant",
        "the kind of server to act as"},
       SetProfile},
      Int("seed", "1", "decides replies and faults", OPTION(seed)),
      {{"log", SimFlagType::kText, "FILE", "", "append one JSON line per call"},
       [](SimServerOptions& o, Text, Text text) {
         o.log_path = std::string(text);
         return absl::OkStatus();
       }},
      {{"models", SimFlagType::kText, "NAMES", "", "serve only these, separated by commas"},
       [](SimServerOptions& o, Text, Text text) {
         o.models = absl::StrSplit(text, ',', absl::SkipWhitespace());
         return absl::OkStatus();
       }},
      {{"api-key-file", SimFlagType::kText, "FILE", "", "ask for the bearer token in this file"},
       SetKeyFile},
      Switch("directives", "true", "obey <<{…}>> in prompts", OPTION(directives)),
      Int("context-tokens", "131072", "prompt and answer at most", OPTION(context_tokens)),
      Time("latency", "0s", "wait before every answer", OPTION(latency)),
      Time("loading", "0s", "answer 503 for so long after the start", OPTION(loading)),
      Int("reply-tokens", "100", "length of a reply, median", OPTION(reply_tokens)),
      Number("reply-spread", "0", "sigma of its logarithm; 0 = all the same", OPTION(reply_spread)),
      Int("connections-max", "2048", "beyond: 503 and closed", OPTION(connections_max)),

      Number("fault-429", "0", "chance of a 429 with retry-after: 1", OPTION(faults.too_many)),
      Number("fault-500", "0", "chance of a 500", OPTION(faults.internal)),
      Number("fault-drop", "0", "chance that the connection breaks", OPTION(faults.drop)),
      Number("fault-hang", "0", "chance that no answer comes", OPTION(faults.hang)),
      Number("fault-slow", "0", "chance of an answer that is --slow-delay late",
             OPTION(faults.slow)),
      Time("slow-delay", "10s", "how late a slow answer is", OPTION(faults.slow_delay)),

      Int("slots", "48", "gpu: requests decoded together", OPTION(gpu.slots)),
      Time("step-time", "8ms", "gpu: a decode step with nothing in it", OPTION(gpu.step_base)),
      Time("step-time-per-call", "0.08ms", "gpu: more for each request in the batch",
           OPTION(gpu.step_per_call)),
      Time("step-time-per-1k-kv", "0.02ms", "gpu: more for each 1,000 KV tokens",
           OPTION(gpu.step_per_1k_kv)),
      Time("prefill-time-per-1k", "20ms", "gpu: more for each 1,000 new prompt tokens",
           OPTION(gpu.prefill_per_1k)),
      Int("kv-tokens", "120000", "gpu: KV cache, in tokens", OPTION(gpu.kv_tokens)),
      Int("queue-max", "100000", "gpu: waiting requests; beyond: 503", OPTION(gpu.queue_max)),
      Number("noise", "0", "gpu: sigma of the logarithm of a speed that wanders",
             OPTION(gpu.noise)),

      Number("tokens-per-second", "2000", "cerebras: decode speed of one request",
             OPTION(cerebras.tokens_per_second)),
      Int("requests-per-minute", "1000", "cerebras: 0 = no limit, as with the next three",
          OPTION(cerebras.requests_per_minute)),
      Int("tokens-per-minute", "1000000", "cerebras: prompt + maximum answer",
          OPTION(cerebras.tokens_per_minute)),
      Int("requests-per-day", "0", "cerebras", OPTION(cerebras.requests_per_day)),
      Int("tokens-per-day", "0", "cerebras", OPTION(cerebras.tokens_per_day)),
      Int("in-flight-max", "0", "cerebras: beyond: 429 queue_exceeded; 0 = no limit",
          OPTION(cerebras.in_flight_max)),
      Switch("refund-unused", "false", "cerebras: give back tokens reserved and not used",
             OPTION(cerebras.refund_unused)),
      Switch("limit-headers", "true", "cerebras: tell limits and what is left of them",
             OPTION(cerebras.limit_headers)),
  };
}

#undef OPTION

const std::vector<Binding>& Bindings() {
  static const auto* const kBindings = new std::vector<Binding>(MakeBindings());
  return *kBindings;
}

}  // namespace

const std::vector<SimFlag>& SimFlags() {
  static const auto* const kFlags = [] {
    auto* const flags = new std::vector<SimFlag>;
    for (const Binding& binding : Bindings()) flags->push_back(binding.flag);
    return flags;
  }();
  return *kFlags;
}

absl::Status SetSimFlag(SimServerOptions& options, absl::string_view name, absl::string_view text) {
  for (const Binding& binding : Bindings()) {
    if (name == binding.flag.name) return binding.set(options, name, text);
  }
  return absl::NotFoundError(absl::StrCat("the simulated server has no flag --", name));
}

void AddSimFlags(CLI::App& app, SimServerOptions& options) {
  for (const SimFlag& flag : SimFlags()) {
    const std::string name = flag.name;
    const auto set = [&options, name](const std::string& text) {
      const absl::Status status = SetSimFlag(options, name, text);
      if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
    };
    const std::string option = absl::StrCat("--", name);
    if (flag.type == SimFlagType::kSwitch) {
      // --name, or --name=false.
      app.add_flag_function(
          option, [set](int64_t count) { set(count > 0 ? "true" : "false"); }, flag.help);
      continue;
    }
    app.add_option_function<std::string>(option, set, flag.help)
        ->type_name(flag.placeholder)
        ->default_str(flag.default_text);
  }
}

}  // namespace nightshift
