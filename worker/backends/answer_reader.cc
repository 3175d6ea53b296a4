#include "worker/backends/answer_reader.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "simdjson.h"
#include "worker/backends/answer_errors.h"
#include "worker/backends/lenient_json.h"
#include "worker/backends/repetition.h"

namespace nightshift {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// More is taken as not told: no server answers with so many.
constexpr int64_t kTokensOfAnswerMax = 1'000'000'000;
// A parser keeps memory of about 15 times the largest document it has seen; past this it is given
// back.
constexpr size_t kKeptParserBytesMax = size_t{1} << 20;

// --- small steps through a document ---------------------------------------------------------

bool GetObject(const object& from, const char* key, object& value) {
  return from.at_key(key).get(value) == simdjson::SUCCESS;
}
bool GetArray(const object& from, const char* key, array& value) {
  return from.at_key(key).get(value) == simdjson::SUCCESS;
}
bool GetString(const object& from, const char* key, std::string_view& value) {
  return from.at_key(key).get(value) == simdjson::SUCCESS;
}

// A count, which some servers write as 12.0. One that no answer can have counts as not told, and
// leaves `value` alone: the sums of a job of any size must hold.
bool GetCount(const object& from, const char* key, int64_t& value) {
  element number;
  if (from.at_key(key).get(number) != simdjson::SUCCESS) return false;
  int64_t whole = 0;
  double real = 0;
  if (number.get(whole) != simdjson::SUCCESS) {
    if (number.get(real) != simdjson::SUCCESS || !(real >= 0) || real > kTokensOfAnswerMax)
      return false;
    whole = static_cast<int64_t>(real);
  }
  if (whole < 0 || whole > kTokensOfAnswerMax) return false;
  value = whole;
  return true;
}

bool IsBlank(std::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isspace(c)) return false;
  }
  return true;
}

bool HasText(const object& from, const char* key) {
  std::string_view text;
  return GetString(from, key, text) && !IsBlank(text);
}

bool HasItems(const object& from, const char* key) {
  array items;
  return GetArray(from, key, items) && items.begin() != items.end();
}

bool HasMembers(const object& from, const char* key) {
  object members;
  return GetObject(from, key, members) && members.begin() != members.end();
}

// A member that is a text, or a list of parts with a text or something else of substance in one.
bool HasContent(const object& from, const char* key) {
  if (HasText(from, key)) return true;
  array parts;
  if (!GetArray(from, key, parts)) return false;
  for (const element& part : parts) {
    object members;
    std::string_view text;
    if (part.get(text) == simdjson::SUCCESS && !IsBlank(text)) return true;
    if (part.get(members) != simdjson::SUCCESS) continue;
    if (members.at_key("text").error() != simdjson::SUCCESS) return true;  // an image, a sound
    if (HasText(members, "text")) return true;
  }
  return false;
}

bool HasPartOfType(const object& from, const char* key, std::string_view wanted) {
  array parts;
  if (!GetArray(from, key, parts)) return false;
  for (const element& part : parts) {
    object members;
    std::string_view type;
    if (part.get(members) == simdjson::SUCCESS && GetString(members, "type", type) &&
        type == wanted)
      return true;
  }
  return false;
}

absl::string_view ToView(std::string_view text) { return {text.data(), text.size()}; }

// --- the endpoints ----------------------------------------------------------------------------

void ReadChoices(Endpoint endpoint, const object& body, AnswerFacts& facts) {
  array choices;
  if (!GetArray(body, "choices", choices)) return;
  bool first = true;
  bool all_shaped = false;
  bool any_content = false;
  for (const element& item : choices) {
    object choice;
    if (item.get(choice) != simdjson::SUCCESS) {
      all_shaped = false;
      break;
    }
    if (first) {
      all_shaped = true;
      std::string_view reason;
      if (GetString(choice, "finish_reason", reason)) facts.finish_reason = std::string(reason);
      first = false;
    }
    if (endpoint == Endpoint::kCompletions) {
      std::string_view text;
      all_shaped = all_shaped && GetString(choice, "text", text);
      any_content = any_content || !IsBlank(text);
      facts.repetitive = facts.repetitive || EndsInRepetition(ToView(text));
    } else {
      object message;
      if (!GetObject(choice, "message", message)) {
        all_shaped = false;
        continue;
      }
      std::string_view text;
      if (GetString(message, "content", text))
        facts.repetitive = facts.repetitive || EndsInRepetition(ToView(text));
      facts.refused = facts.refused || HasText(message, "refusal");
      any_content = any_content || HasContent(message, "content") ||
                    HasItems(message, "tool_calls") || HasMembers(message, "function_call") ||
                    HasText(message, "refusal") || HasMembers(message, "audio");
    }
  }
  facts.has_answer = all_shaped;
  facts.empty_answer = all_shaped && !any_content;
  // Servers that give a generation up say so here, with status 200.
  if (facts.finish_reason == "abort" || facts.finish_reason == "error") {
    facts.incomplete = absl::StrCat("the server gave the generation up (finish_reason \"",
                                    facts.finish_reason, "\")");
  }
}

void ReadEmbeddings(const object& body, AnswerFacts& facts) {
  array data;
  if (!GetArray(body, "data", data)) return;
  facts.has_answer = true;
  facts.empty_answer = true;
  for (const element& item : data) {
    object entry;
    element vector;
    if (item.get(entry) != simdjson::SUCCESS ||
        entry.at_key("embedding").get(vector) != simdjson::SUCCESS) {
      facts.has_answer = facts.empty_answer = false;
      return;
    }
    // A list of numbers, or base64.
    if (HasItems(entry, "embedding") || HasText(entry, "embedding")) facts.empty_answer = false;
  }
}

void ReadResponse(const object& body, AnswerFacts& facts) {
  std::string_view status;
  if (GetString(body, "status", status)) {
    facts.finish_reason = std::string(status);
    object details;
    std::string_view reason;
    if (GetObject(body, "incomplete_details", details) && GetString(details, "reason", reason))
      facts.finish_reason = std::string(reason);
  }
  array output;
  if (!GetArray(body, "output", output)) return;
  if (status == "failed" || status == "cancelled" || status == "in_progress" ||
      status == "queued") {
    if (facts.incomplete.empty()) {
      facts.incomplete =
          absl::StrCat("the server answered with a response that is ", std::string(status));
    }
    return;
  }
  facts.has_answer = true;
  facts.empty_answer = true;
  for (const element& item : output) {
    object entry;
    std::string_view type;
    if (item.get(entry) != simdjson::SUCCESS || !GetString(entry, "type", type)) continue;
    if (type == "reasoning") continue;
    if (type != "message" || HasContent(entry, "content")) facts.empty_answer = false;
    facts.refused = facts.refused || HasPartOfType(entry, "content", "refusal");
  }
}

void ReadMessage(const object& body, AnswerFacts& facts) {
  std::string_view reason;
  if (GetString(body, "stop_reason", reason)) facts.finish_reason = std::string(reason);
  facts.refused = reason == "refusal";
  array content;
  if (!GetArray(body, "content", content)) return;
  facts.has_answer = true;
  facts.empty_answer = true;
  for (const element& item : content) {
    object block;
    std::string_view type;
    if (item.get(block) != simdjson::SUCCESS || !GetString(block, "type", type)) continue;
    if (type == "thinking" || type == "redacted_thinking") continue;
    if (type != "text" || HasText(block, "text")) facts.empty_answer = false;
    std::string_view text;
    if (GetString(block, "text", text))
      facts.repetitive = facts.repetitive || EndsInRepetition(ToView(text));
  }
}

void ReadList(const object& body, const char* key, AnswerFacts& facts) {
  array items;
  if (!GetArray(body, key, items)) return;
  facts.has_answer = true;
  facts.empty_answer = items.begin() == items.end();
}

// A count one level down: {"prompt_tokens_details":{"cached_tokens":3}}.
void GetDetail(const object& usage, const char* details, const char* key, int64_t& value) {
  object members;
  int64_t count = 0;
  if (GetObject(usage, details, members) && GetCount(members, key, count)) value = count;
}

void ReadUsage(const object& body, AnswerFacts& facts) {
  object usage;
  if (!GetObject(body, "usage", usage)) return;
  const bool prompt = GetCount(usage, "prompt_tokens", facts.prompt_tokens) ||
                      GetCount(usage, "input_tokens", facts.prompt_tokens);
  const bool completion = GetCount(usage, "completion_tokens", facts.completion_tokens) ||
                          GetCount(usage, "output_tokens", facts.completion_tokens);
  // Servers of rerankers and classifiers tell only the sum, which is the prompt.
  const bool total = !prompt && !completion && GetCount(usage, "total_tokens", facts.prompt_tokens);
  facts.usage_known = prompt || completion || total;
  if (!facts.usage_known) {
    facts.prompt_tokens = facts.completion_tokens = 0;
    return;
  }
  GetDetail(usage, "prompt_tokens_details", "cached_tokens", facts.cached_tokens);
  GetDetail(usage, "input_tokens_details", "cached_tokens", facts.cached_tokens);
  GetDetail(usage, "completion_tokens_details", "reasoning_tokens", facts.reasoning_tokens);
  GetDetail(usage, "output_tokens_details", "reasoning_tokens", facts.reasoning_tokens);
  int64_t read_from_cache = 0;  // Anthropic's word
  if (GetCount(usage, "cache_read_input_tokens", read_from_cache))
    facts.cached_tokens = read_from_cache;
}

// A time that can be one; `factor` makes milliseconds of it.
void GetTime(const object& from, const char* key, double factor, double& milliseconds) {
  constexpr double kAnyTimeMax = 1e9;
  double told = 0;
  if (from.at_key(key).get(told) != simdjson::SUCCESS) return;
  told *= factor;
  if (std::isfinite(told) && told >= 0 && told < kAnyTimeMax) milliseconds = told;
}

// Cerebras: {"time_info":{"queue_time","prompt_time","completion_time"}}, in seconds. What a
// request waited and was read for is the time to its first token.
void ReadTimeInfo(const object& body, AnswerFacts& facts) {
  object info;
  if (!GetObject(body, "time_info", info)) return;
  constexpr double kPerSecond = 1e3;
  GetTime(info, "queue_time", kPerSecond, facts.server.queue_ms);
  GetTime(info, "prompt_time", kPerSecond, facts.server.prompt_ms);
  GetTime(info, "completion_time", kPerSecond, facts.server.completion_ms);
  if (facts.server.prompt_ms >= 0)
    facts.ttft_ms = std::max(0.0, facts.server.queue_ms) + facts.server.prompt_ms;
}

// llama.cpp: {"timings":{"cache_n","prompt_ms","predicted_ms",…}}. It leaves the wait for a slot
// out.
void ReadTimings(const object& body, AnswerFacts& facts) {
  object timings;
  if (!GetObject(body, "timings", timings)) return;
  GetTime(timings, "load_ms", 1, facts.server.queue_ms);
  GetTime(timings, "prompt_ms", 1, facts.server.prompt_ms);
  GetTime(timings, "predicted_ms", 1, facts.server.completion_ms);
  int64_t cached = 0;
  if (facts.cached_tokens == 0 && GetCount(timings, "cache_n", cached))
    facts.cached_tokens = cached;
}

void ReadSuccess(Endpoint endpoint, const element& document, AnswerFacts& facts) {
  object body;
  array list;
  if (document.get(body) != simdjson::SUCCESS) {
    // Rerankers of some servers answer with a bare list.
    if ((endpoint == Endpoint::kRerank || endpoint == Endpoint::kScore) &&
        document.get(list) == simdjson::SUCCESS) {
      facts.has_answer = true;
      facts.empty_answer = list.begin() == list.end();
    }
    return;
  }
  if (ReadErrorInSuccess(document, facts)) {
    facts.incomplete = absl::StrCat("an error inside the answer: ", facts.error_message);
  }
  switch (endpoint) {
    case Endpoint::kUnspecified:
      break;
    case Endpoint::kChatCompletions:
    case Endpoint::kCompletions:
      ReadChoices(endpoint, body, facts);
      break;
    case Endpoint::kEmbeddings:
      ReadEmbeddings(body, facts);
      break;
    case Endpoint::kResponses:
      ReadResponse(body, facts);
      break;
    case Endpoint::kMessages:
      ReadMessage(body, facts);
      break;
    case Endpoint::kModerations:
    case Endpoint::kRerank:
      ReadList(body, "results", facts);
      break;
    case Endpoint::kScore:
      ReadList(body, "data", facts);
      break;
  }
  ReadUsage(body, facts);
  ReadTimeInfo(body, facts);
  ReadTimings(body, facts);
  if (facts.finish_reason.size() > 64) facts.finish_reason = OneLine(facts.finish_reason, 64);
}

}  // namespace

struct AnswerReader::Impl {
  std::unique_ptr<simdjson::dom::parser> parser = std::make_unique<simdjson::dom::parser>();
  std::string lenient;
};

AnswerReader::AnswerReader() : impl_(std::make_unique<Impl>()) {}
AnswerReader::~AnswerReader() = default;

AnswerFacts AnswerReader::Read(Endpoint endpoint, int http_status, std::string& body) {
  AnswerFacts facts;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  element document;
  simdjson::error_code error =
      impl_->parser->parse(body.data(), body.size(), /*realloc_if_needed=*/false).get(document);
  if (error == simdjson::NUMBER_ERROR || error == simdjson::STRING_ERROR) {
    impl_->lenient = LenientCopy(body);
    impl_->lenient.reserve(impl_->lenient.size() + simdjson::SIMDJSON_PADDING);
    error = impl_->parser->parse(impl_->lenient.data(), impl_->lenient.size(), false).get(document);
  }
  facts.is_json = error == simdjson::SUCCESS;
  const bool success = http_status >= 200 && http_status < 300;
  if (facts.is_json && success) {
    ReadSuccess(endpoint, document, facts);
  } else if (facts.is_json) {
    ReadErrorBody(document, facts);
  } else if (!success) {
    ReadErrorText(body, facts);
  }
  if (body.size() > kKeptParserBytesMax) {
    impl_->parser = std::make_unique<simdjson::dom::parser>();
    impl_->lenient = std::string();
  }
  return facts;
}

}  // namespace nightshift
