#include "worker/backends/server_signs.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "nlohmann/json.hpp"

namespace nightshift {

using PlainJson = nlohmann::json;

ModelList ReadModelList(absl::string_view body) {
  ModelList list;
  const PlainJson document =
      PlainJson::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  const PlainJson* entries = &document;
  if (document.is_object()) {
    const auto data = document.find("data");
    if (data == document.end()) return list;
    entries = &*data;
  }
  if (!entries->is_array()) return list;
  list.readable = true;
  for (const PlainJson& entry : *entries) {
    if (!entry.is_object() || list.models.size() == kModelsMax) continue;
    const auto id = entry.find("id");
    if (id == entry.end() || !id->is_string()) continue;
    list.models.push_back(id->get<std::string>());
    const auto owner = entry.find("owned_by");
    if (list.owner.empty() && owner != entry.end() && owner->is_string())
      list.owner = owner->get<std::string>();
  }
  return list;
}

std::vector<std::string> ReadModelIndex(absl::string_view body) {
  std::vector<std::string> models;
  const PlainJson index =
      PlainJson::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  if (!index.is_array()) return models;
  for (const PlainJson& entry : index) {
    if (!entry.is_object() || models.size() == kModelsMax) continue;
    const auto name = entry.find("name");
    const auto state = entry.find("state");
    const bool ready = state == entry.end() || *state == "READY";
    if (ready && name != entry.end() && name->is_string())
      models.push_back(name->get<std::string>());
  }
  return models;
}

std::string ServerFromSigns(absl::string_view owner, absl::string_view server_header) {
  struct Sign {
    absl::string_view word;  // in lower case
    const char* server;
  };
  // Longer words first where one holds another.
  static constexpr Sign kSigns[] = {
      {"tensorrt_llm", "TensorRT-LLM"},
      {"trtllm", "TensorRT-LLM"},
      {"vllm", "vLLM"},
      {"sglang", "SGLang"},
      {"llamacpp", "llama.cpp"},
      {"llama.cpp", "llama.cpp"},
      {"triton", "Triton"},
      {"cerebras", "Cerebras"},
      {"nightshift", "nightshift sim"},
  };
  for (const absl::string_view text : {owner, server_header}) {
    const std::string lower = absl::AsciiStrToLower(text);
    for (const Sign& sign : kSigns) {
      if (absl::StrContains(lower, sign.word)) return sign.server;
    }
  }
  return "";
}

}  // namespace nightshift
