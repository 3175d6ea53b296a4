// One line of a job's input in its JSON forms, checked and taken apart. Used by the command line
// for files and by the HTTP API for uploads, so that both refuse the same lines in the same words.
#ifndef NIGHTSHIFT_BASE_REQUEST_LINE_H_
#define NIGHTSHIFT_BASE_REQUEST_LINE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"

namespace nightshift {

inline constexpr size_t kCustomIdBytesMax = 512;

// What the job's options say about every request. Empty means "leave the body alone".
struct RequestLineOptions {
  Endpoint endpoint = Endpoint::kChatCompletions;  // for short forms
  bool endpoint_given = false;                     // --endpoint: batch lines must name it too
  std::string model;                               // set where a body names none
  int64_t max_tokens = 0;                          // 0 = not set; set where a body has none
  std::string system;                              // short forms of chat only
};

struct ParsedRequest {
  std::string custom_id;  // "request-<line>" when the line has none
  Endpoint endpoint = Endpoint::kUnspecified;
  std::string body;   // as written, but for the members that options set
  std::string model;  // of the body, empty when it names none
};

struct RequestLineError {
  std::string custom_id;  // if it could be read
  std::string field;      // "body.messages"; empty = the line as a whole
  std::string reason;     // "expected a list, found a string"
};

// Takes an OpenAI batch line or a short form. Exactly one of the two results is filled; true means
// `request`. `line` is the physical line number, from 1; `text` has no line end.
bool ParseRequestLine(absl::string_view text, int64_t line, const RequestLineOptions& options,
                      ParsedRequest* request, RequestLineError* error);

// A plain prompt (a text line, a CSV row after its template) as a request.
ParsedRequest RequestFromPrompt(absl::string_view prompt, absl::string_view custom_id, int64_t line,
                                const RequestLineOptions& options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_REQUEST_LINE_H_
