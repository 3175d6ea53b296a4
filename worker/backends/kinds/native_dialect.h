// A server's own protocol: requests written for OpenAI's routes go out in the server's form, and
// what comes back is told in parts, from which an answer in OpenAI's form is made.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_KINDS_NATIVE_DIALECT_H_
#define NIGHTSHIFT_WORKER_BACKENDS_KINDS_NATIVE_DIALECT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/endpoint.h"
#include "worker/backends/kinds/openai_body.h"
#include "worker/backends/stream_assembler.h"

namespace nightshift {

struct NativeCall {
  std::string path;  // below the backend's base URL, with its first slash
  std::string body;
};

// One whole answer, or one frame of a stream.
struct NativeAnswer {
  // Of a frame: what is new in it, or all so far where the dialect says so.
  std::string text;
  std::string reasoning;
  nlohmann::ordered_json tool_calls;  // null, or a list as OpenAI has it, `index` included
  std::string finish_reason;          // in OpenAI's words; empty = not told
  bool last = false;                  // nothing of the stream comes after it
  // -1 = not told.
  int64_t prompt_tokens = -1;
  int64_t completion_tokens = -1;
  int64_t cached_tokens = -1;
  std::string id;
  std::string model;
  nlohmann::ordered_json timings;  // null, or as llama.cpp tells them
};

// Stateless; one object serves all calls.
class NativeDialect {
 public:
  virtual ~NativeDialect() = default;

  // Ends of a base URL by which a person says that this protocol is meant, longest first. They are
  // taken off the URL.
  virtual absl::Span<const absl::string_view> url_endings() const = 0;
  // Endpoints that go out in this form. Others are called as they are, where the server has
  // OpenAI's routes too.
  virtual bool Speaks(Endpoint endpoint) const {
    return endpoint == Endpoint::kChatCompletions || endpoint == Endpoint::kCompletions;
  }
  virtual bool has_openai_routes() const { return true; }
  // Streams are JSON lines instead of server-sent events.
  virtual bool json_lines() const { return false; }
  // Frames carry the whole text so far.
  virtual bool cumulative() const { return false; }
  // By which sign its streams are known to be whole; of OpenAI's routes it is BackendKind's.
  virtual StreamEnd stream_end() const { return StreamEnd::kDone; }

  // InvalidArgument names what this server cannot be asked.
  virtual absl::StatusOr<NativeCall> Translate(const OpenAiBody& body, bool stream) const = 0;

  // Reads one whole answer or frame that is an object and tells of no error. Returns false when it
  // is not of this server.
  virtual bool Read(const nlohmann::ordered_json& from, NativeAnswer& into) const = 0;
};

// One per server; they live for ever.
const NativeDialect& LlamaCppCompletion();
const NativeDialect& OllamaNative();
const NativeDialect& SglangGenerate();
const NativeDialect& TgiGenerate();
const NativeDialect& TritonGenerate();

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_KINDS_NATIVE_DIALECT_H_
