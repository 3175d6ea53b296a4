// --backend SPEC and the entries under `backends:` of a configuration file, parsed and completed.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_BACKEND_SPEC_H_
#define NIGHTSHIFT_WORKER_BACKENDS_BACKEND_SPEC_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/core/rate_limit.h"

namespace nightshift {

// How a kind that has a protocol of its own is spoken to.
enum class BackendRoute {
  kDetected,  // a URL without a kind: OpenAI's routes unless the server turns out to have none
  kOpenAi,
  kNative,
};

struct BackendSpec {
  std::string name;             // shown and recorded; the URL's host:port, or the configured name
  std::string kind = "openai";  // any compatible server; or "cerebras", "vllm", …, "sim"
  bool kind_given = false;      // else what the server says of itself is shown, and asked for load
  BackendRoute route = BackendRoute::kOpenAi;
  std::string base_url;  // ends before the endpoint's own path: "http://127.0.0.1:8000" + "/v1/…"
  std::string query;     // behind every path, with its "?"; only where a kind has one
  std::string api_key;   // a secret: never logged, never sent to the coordinator
  std::string api_key_file;  // where it came from, and where a new one is looked for; may be empty
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration request_timeout = absl::Minutes(10);  // whole call
  double price_prompt_per_million = -1;                // USD; negative = not known
  double price_completion_per_million = -1;
  // As configured. Of one that tells its limits by itself none are needed.
  std::vector<RateLimit> rate_limits;
  // What requests call a model -> what this backend calls it. The recorded answer has the
  // backend's.
  std::map<std::string, std::string> model_aliases;
};

// The environment, as an argument.
using GetEnv = const char* (*)(const char*);

// A base URL, KIND=URL (the URL's path says which of a kind's protocols is meant: /v1 is OpenAI's,
// /generate, /completion, /api and /v2 are the servers' own), "cerebras", or "sim" (base_url is
// then empty and filled in by whoever starts the embedded server). InvalidArgument names what is
// wrong, and FailedPrecondition a key that is missing, with every place that was looked in.
absl::StatusOr<BackendSpec> ParseBackendSpec(absl::string_view text, GetEnv getenv);

// Adds the limits of "tokens/minute=1000000, requests/day=5000". InvalidArgument names the bad one.
absl::Status AddRateLimits(absl::string_view text, BackendSpec* spec);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_BACKEND_SPEC_H_
