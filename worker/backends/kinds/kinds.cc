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
      {.name = "vllm", .server = "vLLM", .load_path = "/metrics"},
      {.name = "sglang", .server = "SGLang", .load_path = "/metrics", .native = &SglangGenerate()},
      // /metrics only where it was started with it; the slots are known in any case.
      {.name = "llamacpp",
       .server = "llama.cpp",
       .load_path = "/slots",
       .load_path_more = "/metrics",
       .native = &LlamaCppCompletion()},
      // It may leave [DONE] out.
      {.name = "tgi",
       .server = "TGI",
       .stream_end = StreamEnd::kFinishReason,
       .load_path = "/metrics",
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
      // A list of iterations; Prometheus' form is elsewhere, and mostly switched off.
      {.name = "trtllm",
       .server = "TensorRT-LLM",
       .load_path = "/metrics",
       .load_path_more = "/prometheus/metrics"},
      {.name = "nim",
       .server = "NIM",
       .health_path = "/v1/health/ready",
       .load_path = "/v1/metrics"},
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
