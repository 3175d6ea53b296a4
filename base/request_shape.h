// What the endpoints call the parts of a body that nightshift has to know, and bodies made from a
// plain prompt. Pure functions behind base/request_line.h.
#ifndef NIGHTSHIFT_BASE_REQUEST_SHAPE_H_
#define NIGHTSHIFT_BASE_REQUEST_SHAPE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "base/request_line.h"

namespace nightshift {

// Names of members of the body; empty = the endpoint has no such part.
struct EndpointShape {
  absl::string_view input;       // must be there
  absl::string_view max_tokens;  // what --max-tokens sets
  absl::string_view system;      // what --system sets; chat has it among its messages instead
};

EndpointShape ShapeOf(Endpoint endpoint);

// Whether a plain prompt can be sent there: not to /v1/rerank and /v1/score.
bool TakesPrompt(Endpoint endpoint);
// Whether a system text can be sent with it.
bool TakesSystem(Endpoint endpoint);

// `"messages":[…]`, `"prompt":…` or `"input":…`: the member that carries a plain prompt. `raw` is a
// JSON string and is used as it stands; `system` (plain text, may be empty) goes in for chat only.
std::string PromptMember(Endpoint endpoint, absl::string_view raw, absl::string_view system);

// `messages`, a valid and not empty list, with a system message in front.
std::string WithSystemMessage(absl::string_view messages, absl::string_view system);

// `text` as a JSON string.
std::string Quoted(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_REQUEST_SHAPE_H_
