// Triton's generate extension: one text in, one text out, the model in the path.
//
//   POST /v2/models/M/generate         {"id","text_input","parameters":{"max_tokens",…,"stream"}}
//   POST /v2/models/M/generate_stream  the same; server-sent events, each a whole object with what
//                                      is new, and no last word
//   ->  {"id","model_name","model_version","text_output"}       error: {"error":"…"}
//
// It tells neither why an answer ended nor how many tokens it has, but for models served by its
// vLLM back end, which may.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/backends/bounded_json.h"
#include "worker/backends/http_url.h"
#include "worker/backends/kinds/native_dialect.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr MemberRule kTritonParameters[] = {
    {"max_tokens"},
    {"max_completion_tokens", "max_tokens"},
    {"min_p"},
    {"seed"},
    {"presence_penalty"},
    {"repetition_penalty"},
    {"ignore_eos"},
};

class Triton final : public NativeDialect {
 public:
  absl::Span<const absl::string_view> url_endings() const override {
    static constexpr absl::string_view kEndings[] = {"/v2"};
    return kEndings;
  }
  bool has_openai_routes() const override { return false; }
  StreamEnd stream_end() const override { return StreamEnd::kEndOfResponse; }

  absl::StatusOr<NativeCall> Translate(const OpenAiBody& body, bool stream) const override {
    if (body.model.empty() || body.model == "." || body.model == "..")
      return absl::InvalidArgumentError("model: Triton is asked by the name of a model");
    Json out;
    ASSIGN_OR_RETURN(out["text_input"], PromptText(body));
    // Otherwise some of its models repeat the prompt in front of the answer.
    out["exclude_input_in_output"] = true;
    Json& parameters = out["parameters"];
    parameters["stream"] = stream;
    RETURN_IF_ERROR(MapMembers(body, kTritonParameters, {}, "Triton", parameters));
    return NativeCall{
        absl::StrCat("/v2/models/", UrlStep(body.model), stream ? "/generate_stream" : "/generate"),
        PrintJson(out)};
  }

  bool Read(const Json& from, NativeAnswer& into) const override {
    const Json* const text = FindIn(from, "text_output");
    if (text == nullptr) return false;
    into.text = text->is_array() && text->size() == 1 && text->front().is_string()
                    ? text->front().get<std::string>()
                    : TextIn(from, "text_output");
    into.id = TextIn(from, "id");
    into.model = TextIn(from, "model_name");
    into.finish_reason = TextIn(from, "finish_reason");
    if (into.finish_reason == "None") into.finish_reason.clear();  // of a stream that goes on
    into.prompt_tokens = static_cast<int64_t>(NumberIn(from, "num_input_tokens"));
    into.completion_tokens = static_cast<int64_t>(NumberIn(from, "num_output_tokens"));
    return true;
  }
};

}  // namespace

const NativeDialect& TritonGenerate() {
  static const Triton triton;
  return triton;
}

}  // namespace nightshift
