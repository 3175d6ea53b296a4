// The kinds of servers, one row each.
#include "absl/strings/string_view.h"
#include "worker/backends/kinds/kind.h"

namespace nightshift {
namespace {

// Made once; the dialects live for ever.
absl::Span<const BackendKind> Rows() {
  static const BackendKind rows[] = {
      {.name = "openai", .server = "an OpenAI-compatible server"},
      {.name = "cerebras", .server = "Cerebras"},
      {.name = "vllm", .server = "vLLM"},
      {.name = "sglang", .server = "SGLang", .native = &SglangGenerate()},
      {.name = "llamacpp", .server = "llama.cpp", .native = &LlamaCppCompletion()},
      // It may leave [DONE] out.
      {.name = "tgi",
       .server = "TGI",
       .stream_end = StreamEnd::kFinishReason,
       .native = &TgiGenerate()},
      {.name = "triton",
       .server = "Triton",
       .stream_end = StreamEnd::kFinishReason,
       .health_path = "/v2/health/ready",
       .not_ready_status = 400,
       .native = &TritonGenerate(),
       .native_by_default = true},
      {.name = "ollama",
       .server = "Ollama",
       .health_path = "/api/version",
       .native = &OllamaNative(),
       .native_by_default = true},
      {.name = "trtllm", .server = "TensorRT-LLM"},
      {.name = "nim", .server = "NIM", .health_path = "/v1/health/ready"},
      {.name = "anthropic",
       .server = "Anthropic",
       .key_header = KeyHeader::kXApiKey,
       .header = "anthropic-version: 2023-06-01"},
      {.name = "azure",
       .server = "Azure OpenAI",
       .key_header = KeyHeader::kApiKey,
       .deployments = true},
      {.name = "sim", .server = "nightshift sim"},
  };
  return rows;
}

}  // namespace

absl::Span<const BackendKind> AllKinds() { return Rows(); }

const BackendKind* FindKind(absl::string_view name) {
  for (const BackendKind& kind : Rows()) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

const BackendKind* FindKindOfServer(absl::string_view server) {
  for (const BackendKind& kind : Rows()) {
    if (server == kind.server) return &kind;
  }
  return nullptr;
}

}  // namespace nightshift
