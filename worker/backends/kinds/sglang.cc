// SGLang's own route.
//
//   POST /generate  {"text","sampling_params":{"max_new_tokens",…},"stream"}
//   ->  {"text","meta_info":{"id","finish_reason":{"type"},"prompt_tokens","completion_tokens",
//        "cached_tokens"}}
//   Streamed: server-sent events with the text so far, then [DONE].
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "worker/backends/bounded_json.h"
#include "worker/backends/kinds/native_dialect.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr MemberRule kSampling[] = {
    {"max_tokens", "max_new_tokens"},
    {"max_completion_tokens", "max_new_tokens"},
    {"min_p"},
    {"min_tokens", "min_new_tokens"},
    {"seed", "sampling_seed"},
    {"presence_penalty"},
    {"repetition_penalty"},
    {"ignore_eos"},
    {"regex"},
    {"ebnf"},
    {"json_schema"},
};

class Sglang final : public NativeDialect {
 public:
  absl::Span<const absl::string_view> url_endings() const override {
    static constexpr absl::string_view kEndings[] = {"/generate"};
    return kEndings;
  }
  bool cumulative() const override { return true; }

  absl::StatusOr<NativeCall> Translate(const OpenAiBody& body, bool stream) const override {
    Json out;
    ASSIGN_OR_RETURN(out["text"], PromptText(body));
    Json& sampling = out["sampling_params"];
    sampling = Json::object();
    RETURN_IF_ERROR(MapMembers(body, kSampling, {}, "SGLang", sampling));
    out["stream"] = stream;
    return NativeCall{"/generate", PrintJson(out)};
  }

  bool Read(const Json& from, NativeAnswer& into) const override {
    const Json* const text = FindIn(from, "text");
    const Json* const info = FindIn(from, "meta_info");
    if (text == nullptr || !text->is_string() || info == nullptr) return false;
    into.text = text->get<std::string>();
    into.id = TextIn(*info, "id");
    into.prompt_tokens = static_cast<int64_t>(NumberIn(*info, "prompt_tokens"));
    into.completion_tokens = static_cast<int64_t>(NumberIn(*info, "completion_tokens"));
    into.cached_tokens = static_cast<int64_t>(NumberIn(*info, "cached_tokens"));
    const Json* const reason = FindIn(*info, "finish_reason");
    if (reason != nullptr)
      into.finish_reason =
          reason->is_string() ? reason->get<std::string>() : TextIn(*reason, "type");
    return true;
  }
};

}  // namespace

const NativeDialect& SglangGenerate() {
  static const Sglang sglang;
  return sglang;
}

}  // namespace nightshift
