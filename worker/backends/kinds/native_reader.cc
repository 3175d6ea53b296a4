#include "worker/backends/kinds/native_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/strip.h"
#include "worker/backends/bounded_json.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kHalfACharacter[] = "\xEF\xBF\xBD";

bool TellsError(const Json& frame) {
  const Json* const error = FindIn(frame, "error");
  return error != nullptr && !error->is_null();
}

}  // namespace

NativeReader::NativeReader(const NativeDialect& dialect, Call call)
    : dialect_(dialect), call_(std::move(call)) {}

void NativeReader::TakeFrame(absl::string_view event, absl::string_view data,
                             StreamAssembler& assembler) {
  bool marked = false;
  const std::optional<Json> frame =
      dialect_.cumulative() ? ParseBounded(data) : ParseFrame(data, &marked);
  if (marked) assembler.ExpectMarks();
  NativeAnswer answer;
  if (event == "error" || !frame || !frame->is_object() || TellsError(*frame) ||
      !dialect_.Read(*frame, answer)) {
    assembler.TakeFrame(event, data);
    return;
  }
  if (dialect_.cumulative()) {
    absl::string_view text = answer.text;
    // What stands for the half of a character is taken back when the other half comes.
    while (answer.finish_reason.empty() && absl::ConsumeSuffix(&text, kHalfACharacter)) {
    }
    answer.text.resize(text.size());
    const size_t seen = std::min(text_seen_, answer.text.size());
    text_seen_ = std::max(text_seen_, answer.text.size());
    answer.text.erase(0, seen);
  }
  assembler.TakeFrame("", Chunk(answer));
  if (answer.last) assembler.TakeFrame("", "[DONE]");
}

std::string NativeReader::Whole(absl::string_view body) {
  const std::optional<Json> document = ParseBounded(body);
  NativeAnswer answer;
  if (!document || !document->is_object() || TellsError(*document) ||
      !dialect_.Read(*document, answer))
    return "";
  StreamAssembler assembler({.endpoint = call_.endpoint, .end = StreamEnd::kEndOfResponse});
  assembler.TakeFrame("", Chunk(answer));
  return assembler.Assemble();
}

std::string NativeReader::Chunk(NativeAnswer& answer) {
  const bool calls_tools = answer.tool_calls.is_array() && !answer.tool_calls.empty();
  tools_called_ = tools_called_ || calls_tools;
  // Servers that tell of calls and then only that they stopped.
  if (tools_called_ && answer.finish_reason == "stop") answer.finish_reason = "tool_calls";
  const bool chat = call_.endpoint == Endpoint::kChatCompletions;
  Json chunk;
  chunk["id"] = answer.id.empty() ? call_.id : answer.id;
  chunk["object"] = chat ? "chat.completion.chunk" : "text_completion";
  chunk["created"] = call_.created_unix;
  chunk["model"] = answer.model.empty() ? call_.model : answer.model;
  Json choice = {{"index", 0}};
  if (chat) {
    Json& delta = choice["delta"];
    delta["role"] = "assistant";
    delta["content"] = answer.text;
    if (!answer.reasoning.empty()) delta["reasoning"] = answer.reasoning;
    if (calls_tools) delta["tool_calls"] = answer.tool_calls;
  } else {
    choice["text"] = answer.text;
  }
  choice["finish_reason"] = nullptr;
  if (!answer.finish_reason.empty()) choice["finish_reason"] = answer.finish_reason;
  chunk["choices"] = Json::array({std::move(choice)});
  if (answer.prompt_tokens >= 0 || answer.completion_tokens >= 0) {
    const int64_t prompt = std::max<int64_t>(0, answer.prompt_tokens);
    const int64_t completion = std::max<int64_t>(0, answer.completion_tokens);
    Json usage;
    // A count that the server leaves out is left out here too.
    if (answer.prompt_tokens >= 0) usage["prompt_tokens"] = prompt;
    if (answer.completion_tokens >= 0) usage["completion_tokens"] = completion;
    if (answer.prompt_tokens >= 0 && answer.completion_tokens >= 0)
      usage["total_tokens"] = prompt + completion;
    if (answer.cached_tokens >= 0)
      usage["prompt_tokens_details"] = {{"cached_tokens", answer.cached_tokens}};
    chunk["usage"] = std::move(usage);
  }
  if (!answer.timings.is_null()) chunk["timings"] = answer.timings;
  return PrintJson(chunk);
}

}  // namespace nightshift
