// Ollama's own routes.
//
//   POST /api/chat      {"model","messages","stream","options":{"num_predict",…},"tools","format"}
//   POST /api/generate  {"model","prompt",…}
//   ->  {"model","created_at","message":{"role","content","thinking","tool_calls"} or "response",
//        "done","done_reason","prompt_eval_count","eval_count", durations in nanoseconds}
//   Streamed, which is what it does unless told otherwise: JSON lines with what is new; the last
//   one says `done` and has the account. Counts that are zero are left out.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/backends/bounded_json.h"
#include "worker/backends/kinds/native_dialect.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr MemberRule kOptions[] = {
    {"max_tokens", "num_predict"},
    {"max_completion_tokens", "num_predict"},
    {"min_p"},
    {"typical_p"},
    {"seed"},
    {"presence_penalty"},
    {"repetition_penalty", "repeat_penalty"},
    {"num_ctx"},
};
// Beside the options, by their own names.
constexpr const char* kBeside[] = {"tools", "response_format", "think", "keep_alive",
                                   "reasoning_effort"};

// OpenAI's words for a form that the answer must have: none, any JSON, or a schema.
absl::Status SetFormat(const Json& wanted, Json& out) {
  const std::string type = TextIn(wanted, "type");
  if (type.empty() || type == "text") return absl::OkStatus();
  if (type == "json_object") {
    out["format"] = "json";
    return absl::OkStatus();
  }
  const Json* const named = FindIn(wanted, "json_schema");
  const Json* const schema = named == nullptr ? nullptr : FindIn(*named, "schema");
  if (type != "json_schema" || schema == nullptr)
    return absl::InvalidArgumentError("response_format: expected text, json_object or json_schema");
  out["format"] = *schema;
  return absl::OkStatus();
}

// A message as Ollama wants it: content is a text, and arguments of tools are objects.
absl::StatusOr<Json> Message(const Json& message) {
  Json out;
  const std::string role = TextIn(message, "role");
  out["role"] = role == "developer" ? "system" : role;
  out["content"] = "";
  if (const Json* const content = FindIn(message, "content")) {
    ASSIGN_OR_RETURN(out["content"], ContentText(*content));
  }
  const Json* const calls = FindIn(message, "tool_calls");
  if (calls != nullptr && calls->is_array()) {
    Json& list = out["tool_calls"] = Json::array();
    for (const Json& call : *calls) {
      const Json* const function = FindIn(call, "function");
      if (function == nullptr) continue;
      const std::optional<Json> arguments = ParseBounded(TextIn(*function, "arguments"));
      if (!arguments || !arguments->is_object())
        return absl::InvalidArgumentError("messages: the arguments of a tool call are no object");
      list.push_back(
          {{"function", {{"name", TextIn(*function, "name")}, {"arguments", *arguments}}}});
    }
  }
  return out;
}

Json ToolCalls(const Json& told) {
  Json calls = Json::array();
  for (const Json& call : told) {
    const Json* const function = FindIn(call, "function");
    if (function == nullptr) continue;
    const size_t number = calls.size();
    const Json* const index = FindIn(*function, "index");
    const int64_t place = index != nullptr && index->is_number_integer()
                              ? index->get<int64_t>()
                              : static_cast<int64_t>(number);
    const Json* const arguments = FindIn(*function, "arguments");
    const std::string id = TextIn(call, "id");
    calls.push_back({{"index", place},
                     {"id", id.empty() ? absl::StrCat("call_", place) : id},
                     {"type", "function"},
                     {"function",
                      {{"name", TextIn(*function, "name")},
                       {"arguments", arguments == nullptr ? "{}" : PrintJson(*arguments)}}}});
  }
  return calls;
}

// Its durations, as llama.cpp, which is inside it, would tell them.
Json Timings(const Json& from, int64_t prompt_tokens, int64_t completion_tokens) {
  constexpr double kNanosecondsPerMillisecond = 1e6;
  Json timings;
  const auto add = [&](const char* name, const char* told) {
    const double duration = NumberIn(from, told);
    if (duration >= 0) timings[name] = duration / kNanosecondsPerMillisecond;
  };
  add("load_ms", "load_duration");
  timings["prompt_n"] = prompt_tokens;
  add("prompt_ms", "prompt_eval_duration");
  timings["predicted_n"] = completion_tokens;
  add("predicted_ms", "eval_duration");
  return timings;
}

class Ollama final : public NativeDialect {
 public:
  absl::Span<const absl::string_view> url_endings() const override {
    static constexpr absl::string_view kEndings[] = {"/api/chat", "/api/generate", "/api"};
    return kEndings;
  }
  bool json_lines() const override { return true; }

  absl::StatusOr<NativeCall> Translate(const OpenAiBody& body, bool stream) const override {
    const bool chat = body.endpoint == Endpoint::kChatCompletions;
    Json out;
    out["model"] = body.model;
    if (chat) {
      const Json* const messages = FindIn(body.members, "messages");
      if (messages == nullptr || !messages->is_array())
        return absl::InvalidArgumentError("messages: expected a list");
      Json& list = out["messages"] = Json::array();
      for (const Json& message : *messages) {
        ASSIGN_OR_RETURN(Json told, Message(message));
        list.push_back(std::move(told));
      }
    } else {
      ASSIGN_OR_RETURN(out["prompt"], PromptText(body));
    }
    out["stream"] = stream;
    Json options = Json::object();
    RETURN_IF_ERROR(MapMembers(body, kOptions, kBeside, "Ollama", options));
    if (options.contains("stop")) options["stop"] = AsList(options["stop"]);
    if (!options.empty()) out["options"] = std::move(options);
    for (const char* key : {"tools", "think", "keep_alive"}) {
      if (const Json* const value = FindIn(body.members, key)) out[key] = *value;
    }
    if (const Json* const effort = FindIn(body.members, "reasoning_effort")) {
      if (*effort == "none") {
        out["think"] = false;
      } else {
        out["think"] = *effort;
      }
    }
    if (const Json* const format = FindIn(body.members, "response_format"))
      RETURN_IF_ERROR(SetFormat(*format, out));
    return NativeCall{chat ? "/api/chat" : "/api/generate", PrintJson(out)};
  }

  bool Read(const Json& from, NativeAnswer& into) const override {
    const Json* const message = FindIn(from, "message");
    if (message == nullptr && FindIn(from, "response") == nullptr) return false;
    into.text = message != nullptr ? TextIn(*message, "content") : TextIn(from, "response");
    into.reasoning = TextIn(message != nullptr ? *message : from, "thinking");
    into.model = TextIn(from, "model");
    const Json* const calls = message == nullptr ? nullptr : FindIn(*message, "tool_calls");
    if (calls != nullptr && calls->is_array()) into.tool_calls = ToolCalls(*calls);
    const Json* const done = FindIn(from, "done");
    into.last = done != nullptr && *done == true;
    if (!into.last) return true;
    // Older servers say only that they are done.
    into.finish_reason = TextIn(from, "done_reason");
    if (into.finish_reason.empty()) into.finish_reason = "stop";
    const bool counted =
        FindIn(from, "eval_count") != nullptr || FindIn(from, "prompt_eval_count") != nullptr;
    if (!counted) return true;
    into.prompt_tokens = static_cast<int64_t>(std::max(0.0, NumberIn(from, "prompt_eval_count")));
    into.completion_tokens = static_cast<int64_t>(std::max(0.0, NumberIn(from, "eval_count")));
    into.timings = Timings(from, into.prompt_tokens, into.completion_tokens);
    return true;
  }
};

}  // namespace

const NativeDialect& OllamaNative() {
  static const Ollama ollama;
  return ollama;
}

}  // namespace nightshift
