// What a backend's answer says: usage, why the model stopped, whether it is an answer at all, and
// the backend's own words where it is an error, in all the shapes that servers use.
//
// The body is looked at once and never changed. One reader per thread: it keeps its buffers from
// answer to answer.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_ANSWER_READER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_ANSWER_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "worker/backends/server_times.h"

namespace nightshift {

struct AnswerFacts {
  bool is_json = false;

  bool usage_known = false;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompt; 0 = none, or not told
  int64_t reasoning_tokens = 0;  // of the completion

  // In the backend's own word: "stop", "length", "end_turn", "max_output_tokens", …
  std::string finish_reason;
  bool has_answer = false;    // the shape of an answer for this endpoint
  bool empty_answer = false;  // … and nothing in it: no text, no tool call, no vector
  bool refused = false;       // the model declined: a refusal instead of a text
  bool repetitive = false;    // the text ends in one phrase over and over
  // Why a 2xx is no whole answer: an error in its body, or a generation that was aborted.
  std::string incomplete;

  // Valid UTF-8, bounded. Empty = no error told.
  std::string error_message;
  std::string error_type;
  std::string error_code;

  // Time to the first token where the backend tells it; negative = not told.
  double ttft_ms = -1;
  ServerTimes server;
};

class AnswerReader {
 public:
  AnswerReader();
  ~AnswerReader();

  // `body` may be given more capacity (the parser reads past its end); its bytes stay.
  AnswerFacts Read(Endpoint endpoint, int http_status, std::string& body);

  // Longest error message kept.
  static constexpr size_t kMessageBytesMax = 2000;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_ANSWER_READER_H_
