// Any bytes as a stream of any kind of server. The first two bytes choose the endpoint, the
// protocol and the size of the pieces; the rest arrives once at once and once in pieces.
//
// What must hold: nothing crashes or runs away; the answer and the verdict on the stream are the
// same for every chunking; the answer is one JSON document on one line, or nothing.
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "nlohmann/json.hpp"
#include "worker/backends/answer_reader.h"
#include "worker/backends/json_lines_parser.h"
#include "worker/backends/kinds/native_reader.h"
#include "worker/backends/sse_parser.h"
#include "worker/backends/stream_assembler.h"

namespace nightshift {
namespace {

constexpr Endpoint kEndpoints[] = {Endpoint::kChatCompletions, Endpoint::kCompletions,
                                   Endpoint::kMessages, Endpoint::kResponses};

const NativeDialect* Dialect(int number) {
  switch (number) {
    case 1:
      return &OllamaNative();
    case 2:
      return &SglangGenerate();
    case 3:
      return &LlamaCppCompletion();
    case 4:
      return &TgiGenerate();
    case 5:
      return &TritonGenerate();
    default:
      return nullptr;
  }
}

struct Result {
  std::string answer;
  std::string incomplete;
  int64_t pieces = 0;
};

Result Read(absl::string_view bytes, size_t piece, Endpoint endpoint,
            const NativeDialect* dialect) {
  StreamAssembler assembler({.endpoint = endpoint});
  std::unique_ptr<NativeReader> native;
  if (dialect != nullptr) {
    native = std::make_unique<NativeReader>(
        *dialect, NativeReader::Call{.endpoint = endpoint, .model = "m", .id = "i"});
  }
  const auto on_frame = [&](absl::string_view event, absl::string_view data) {
    if (native != nullptr) {
      native->TakeFrame(event, data, assembler);
    } else {
      assembler.TakeFrame(event, data);
    }
  };
  SseParser events;
  JsonLinesParser lines;
  const bool json_lines = dialect != nullptr && dialect->json_lines();
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const absl::string_view next = bytes.substr(at, piece);
    if (!(json_lines ? lines.Push(next, on_frame) : events.Push(next, on_frame))) break;
  }
  if (json_lines) lines.Finish(on_frame);
  return {assembler.Assemble(), assembler.Incomplete(), assembler.pieces()};
}

}  // namespace
}  // namespace nightshift

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nightshift;
  if (size < 2) return 0;
  const NativeDialect* const dialect = Dialect(data[0] / 4 % 6);
  const Endpoint endpoint = kEndpoints[data[0] % (dialect == nullptr ? 4 : 2)];
  const size_t piece = 1 + data[1] % 32;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Result whole = Read(bytes, bytes.size() + 1, endpoint, dialect);
  const Result pieces = Read(bytes, piece, endpoint, dialect);
  NIGHTSHIFT_CHECK(whole.answer == pieces.answer, "the answer depends on the chunking");
  NIGHTSHIFT_CHECK(whole.incomplete == pieces.incomplete, "the verdict depends on the chunking");
  NIGHTSHIFT_CHECK(whole.pieces == pieces.pieces, "the pieces depend on the chunking");
  NIGHTSHIFT_CHECK(whole.answer.empty() || nlohmann::json::accept(whole.answer), "not JSON");
  NIGHTSHIFT_CHECK(whole.answer.find('\n') == std::string::npos, "not on one line");
  AnswerReader reader;
  std::string body = whole.answer;
  reader.Read(endpoint, 200, body);
  return 0;
}
