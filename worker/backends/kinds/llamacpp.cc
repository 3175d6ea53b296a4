// llama.cpp's own route. It knows no chat: a conversation goes out as one text.
//
//   POST /completion  {"prompt","n_predict","temperature",…,"stream"}
//   ->  {"content","stop","stop_type","tokens_evaluated","tokens_predicted","tokens_cached",
//        "truncated","model","timings"}
//   Streamed: server-sent events with what is new; the last one says `stop` and has the account.
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "worker/backends/bounded_json.h"
#include "worker/backends/kinds/native_dialect.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr MemberRule kMembers[] = {
    {"max_tokens", "n_predict"},
    {"max_completion_tokens", "n_predict"},
    {"min_p"},
    {"typical_p"},
    {"seed"},
    {"presence_penalty"},
    {"repetition_penalty", "repeat_penalty"},
    {"repeat_penalty"},
    {"ignore_eos"},
    {"grammar"},
    {"json_schema"},
    {"cache_prompt"},
    {"id_slot"},
};

class LlamaCpp final : public NativeDialect {
 public:
  absl::Span<const absl::string_view> url_endings() const override {
    static constexpr absl::string_view kEndings[] = {"/completion"};
    return kEndings;
  }

  absl::StatusOr<NativeCall> Translate(const OpenAiBody& body, bool stream) const override {
    Json out;
    ASSIGN_OR_RETURN(out["prompt"], PromptText(body));
    RETURN_IF_ERROR(MapMembers(body, kMembers, {}, "llama.cpp", out));
    if (out.contains("stop")) out["stop"] = AsList(out["stop"]);
    out["stream"] = stream;
    return NativeCall{"/completion", PrintJson(out)};
  }

  bool Read(const Json& from, NativeAnswer& into) const override {
    const Json* const content = FindIn(from, "content");
    if (content == nullptr || !content->is_string()) return false;
    into.text = content->get<std::string>();
    const Json* const stop = FindIn(from, "stop");
    into.last = stop != nullptr && *stop == true;
    if (!into.last) return true;
    into.model = TextIn(from, "model");
    into.finish_reason = TextIn(from, "stop_type") == "limit" ? "length" : "stop";
    into.prompt_tokens = static_cast<int64_t>(NumberIn(from, "tokens_evaluated"));
    into.completion_tokens = static_cast<int64_t>(NumberIn(from, "tokens_predicted"));
    const Json* const timings = FindIn(from, "timings");
    if (timings != nullptr && timings->is_object()) {
      into.timings = *timings;
      into.cached_tokens = static_cast<int64_t>(NumberIn(*timings, "cache_n"));
    }
    return true;
  }
};

}  // namespace

const NativeDialect& LlamaCppCompletion() {
  static const LlamaCpp llama_cpp;
  return llama_cpp;
}

}  // namespace nightshift
