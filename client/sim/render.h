// Answers and errors as bytes, in the words of the server that a profile stands for. Pure.
#ifndef NIGHTSHIFT_CLIENT_SIM_RENDER_H_
#define NIGHTSHIFT_CLIENT_SIM_RENDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/sim/reply.h"
#include "client/sim/sim_options.h"
#include "client/sim/sim_request.h"

namespace nightshift {

struct SimError {
  int status = 500;
  std::string message;
  std::string type;   // "invalid_request_error"
  std::string param;  // empty = null
  std::string code;   // "model_not_found"
  std::vector<std::pair<std::string, std::string>> headers;
};

// Cerebras: the members at the top. Otherwise inside "error", with the status as its code for gpu.
std::string RenderError(SimProfile profile, const SimError& error);

// What Cerebras tells in `time_info`: how long the parts took by the model, not by a watch, so that
// equal requests get equal answers.
struct SimTimeInfo {
  absl::Duration prompt;
  absl::Duration completion;
};

// The whole answer. `length` counts the tokens of one choice; `time_info` may be null.
std::string RenderAnswer(const SimRequest& request, const SimReplyLength& length,
                         const SimTimeInfo* time_info);

// The frames of a stream, for chat and text completions.
class SimStream {
 public:
  // True for the endpoints that can stream here.
  static bool Supports(Endpoint endpoint);

  SimStream(SimProfile profile, const SimRequest& request, const SimReplyLength& length);

  int64_t choices() const { return choices_; }
  // The frame that opens a choice (chat names the role there); empty when there is none.
  std::string Open(int64_t choice) const;
  // Tokens [begin, end) of one choice.
  std::string Delta(int64_t choice, int64_t begin, int64_t end) const;
  // The frames after the last token: finish reasons, usage where asked for, [DONE].
  std::string Close(const SimTimeInfo* time_info) const;
  // The frame of a stream that fails after a 200.
  std::string Failure() const;

 private:
  std::string Frame(int64_t choice, absl::string_view delta, absl::string_view finish_reason,
                    absl::string_view more) const;

  const SimProfile profile_;
  const SimRequest& request_;  // outlives this
  const SimReplyLength length_;
  const int64_t choices_;
  std::vector<SimText> texts_;  // one per choice
};

// {"object":"list","data":[…]} of `models`.
std::string RenderModels(const std::vector<std::string>& models, int64_t context_tokens);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_RENDER_H_
