// A call as the simulated server understands it. Pure.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_REQUEST_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/endpoint.h"

namespace nightshift {

// What a prompt itself asks for, as JSON between <<{ and }>>: README.md has the list.
struct SimDirective {
  int64_t times = INT64_MAX;  // only the first so many calls with the same key
  int status = 0;             // answer with this error
  std::string body;           // of that answer; empty = the profile's own error body
  std::vector<std::pair<std::string, std::string>> headers;
  absl::Duration delay;
  bool hang = false;
  bool drop_before = false;
  bool drop_mid = false;
  bool garbage = false;  // 200 with a body that is not JSON
  bool empty = false;    // an answer without text
  bool length = false;   // finish_reason "length"
  std::optional<int64_t> tokens;
  int sse_error = -1;  // in a stream: an error frame after so many deltas
  int sse_cut = -1;    // in a stream: the end, without [DONE], after so many deltas
};

struct SimRequest {
  Endpoint endpoint = Endpoint::kUnspecified;
  std::string model;
  bool stream = false;
  bool include_usage = false;
  int64_t max_tokens = 0;     // 0 = not named
  int64_t prompt_tokens = 0;  // four bytes of text are one
  int64_t inputs = 1;         // texts to embed, to judge or to rank; prompts of /v1/completions
  int64_t choices = 1;        // n
  // Under which calls are counted and logged: the directive's or the `key=…` of the prompt, else
  // the mark.
  std::string key;
  bool key_given = false;
  // First 12 hex digits of the SHA-1 of the body: appears in the answer, so that any program can
  // check that an answer belongs to its request.
  std::string mark;
  uint64_t hash = 0;  // of the body and the seed: decides everything that varies
  SimDirective directive;
};

// InvalidArgument with the message of a 400. `directives` false: they are plain text.
absl::StatusOr<SimRequest> ParseSimRequest(Endpoint endpoint, absl::string_view body, uint64_t seed,
                                           bool directives);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_REQUEST_H_
