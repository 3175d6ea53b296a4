// TGI's own route, for servers from before it spoke OpenAI's.
//
//   POST /generate         {"inputs","parameters":{"max_new_tokens",…,"details":true}}
//   POST /generate_stream  the same; server-sent events, one token each, the last one with the
//                          whole text and the details; no [DONE]
//   ->  {"generated_text","details":{"finish_reason","generated_tokens",…}}
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "worker/backends/bounded_json.h"
#include "worker/backends/kinds/native_dialect.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr MemberRule kTgiParameters[] = {
    {"max_tokens", "max_new_tokens"},
    {"max_completion_tokens", "max_new_tokens"},
    {"typical_p"},
    {"seed"},
    {"repetition_penalty"},
};

std::string FinishReason(const std::string& told) {
  return told == "eos_token" || told == "stop_sequence" ? "stop" : told;
}

class Tgi final : public NativeDialect {
 public:
  absl::Span<const absl::string_view> url_endings() const override {
    static constexpr absl::string_view kEndings[] = {"/generate_stream", "/generate"};
    return kEndings;
  }
  // Its last frame has the reason, and nothing comes after it.
  StreamEnd stream_end() const override { return StreamEnd::kFinishReason; }

  absl::StatusOr<NativeCall> Translate(const OpenAiBody& body, bool stream) const override {
    Json out;
    ASSIGN_OR_RETURN(out["inputs"], PromptText(body));
    Json& parameters = out["parameters"];
    parameters["details"] = true;
    RETURN_IF_ERROR(MapMembers(body, kTgiParameters, {}, "TGI", parameters));
    if (parameters.contains("stop")) parameters["stop"] = AsList(parameters["stop"]);
    // It refuses a temperature of 0 and has another word for it; above 0 it must be told to sample.
    const double temperature = NumberIn(parameters, "temperature");
    if (temperature == 0) parameters.erase("temperature");
    if (temperature >= 0) parameters["do_sample"] = temperature > 0;
    // Of a top_p of 1, which asks for nothing, it says that it must be below.
    if (NumberIn(parameters, "top_p") == 1) parameters.erase("top_p");
    return NativeCall{stream ? "/generate_stream" : "/generate", PrintJson(out)};
  }

  bool Read(const Json& from, NativeAnswer& into) const override {
    const Json* const token = FindIn(from, "token");
    const Json* const text = FindIn(from, "generated_text");
    if (token == nullptr && text == nullptr) return false;
    if (token != nullptr) {
      const Json* const special = FindIn(*token, "special");
      if (special == nullptr || *special != true) into.text = TextIn(*token, "text");
      into.last = text != nullptr && !text->is_null();
    } else {
      into.text = TextIn(from, "generated_text");
    }
    const Json* const details = FindIn(from, "details");
    if (details == nullptr || !details->is_object()) return true;
    into.finish_reason = FinishReason(TextIn(*details, "finish_reason"));
    into.completion_tokens = static_cast<int64_t>(NumberIn(*details, "generated_tokens"));
    into.prompt_tokens = static_cast<int64_t>(NumberIn(*details, "input_length"));
    return true;
  }
};

}  // namespace

const NativeDialect& TgiGenerate() {
  static const Tgi tgi;
  return tgi;
}

}  // namespace nightshift
