// The backend's own words in an error body: one reader for the shapes that servers use.
//
//   {"error":{"message","type","code"}}            OpenAI, vLLM, llama.cpp (code may be an integer)
//   {"error":{…,"http_status_code":422}}           TGI in a stream
//   {"error":{…},"status_code":503}                Cerebras in a stream
//   {"error":"…","error_type":"overloaded"}        TGI, Triton, Ollama
//   {"object":"error","message","type","code"}     older vLLM
//   {"message","type","param","code"}              Cerebras
//   {"detail":"…"}, {"detail":[{"loc","msg"}]}     FastAPI
//   {"errors":[{"message","code"}]}                gateways
//   anything else                                  proxies: plain text, HTML pages
#ifndef NIGHTSHIFT_WORKER_BACKENDS_ANSWER_ERRORS_H_
#define NIGHTSHIFT_WORKER_BACKENDS_ANSWER_ERRORS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "simdjson.h"
#include "worker/backends/answer_reader.h"

namespace nightshift {

// Fills in the error fields from the body of a failure. Leaves them alone where it says nothing.
void ReadErrorBody(const simdjson::dom::element& body, AnswerFacts& facts);

// The same from an error inside a success: only from what is unmistakably one (a member `error`
// that is not null, or an object that calls itself an error). Returns whether there was one.
bool ReadErrorInSuccess(const simdjson::dom::element& body, AnswerFacts& facts);

// A body that is not JSON: its text, or its title where it is a page.
void ReadErrorText(absl::string_view body, AnswerFacts& facts);

// A scalar as text ("503", "rate_limited"); empty for null and for what is no scalar.
std::string ScalarText(const simdjson::dom::element& value);

// `text` on one line, valid UTF-8, at most `bytes_max` long and cut between characters.
std::string OneLine(absl::string_view text, size_t bytes_max);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_ANSWER_ERRORS_H_
