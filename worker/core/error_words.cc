#include "worker/core/error_words.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace nightshift {
namespace {

// As far into an error text as words are looked for: what follows may be the request, echoed.
constexpr size_t kLookedAtMax = 4096;

enum class Where {
  kCode,     // the error's code or type
  kText,     // its code, type or message; the body where none of them is known
  kOpening,  // how the message starts: for meanings that an echoed prompt must not be able to forge
};

struct WordRow {
  int statuses[5];  // ends with the first zero
  Where where;
  const char* word;  // lower case
  const char* also;  // must be there too; null = nothing
  Meaning meaning;
};

// The first row that fits decides.
constexpr WordRow kWords[] = {
    {{429, 400, 403}, Where::kCode, "insufficient_quota", nullptr, Meaning::kKeyRefused},
    {{429, 400, 403}, Where::kCode, "billing", nullptr, Meaning::kKeyRefused},
    {{400, 404, 422}, Where::kCode, "invalid_api_key", nullptr, Meaning::kKeyRefused},
    {{400, 404, 422}, Where::kCode, "wrong_api_key", nullptr, Meaning::kKeyRefused},
    {{400, 404, 422}, Where::kCode, "authentication_error", nullptr, Meaning::kKeyRefused},
    {{400}, Where::kOpening, "api key not valid", nullptr, Meaning::kKeyRefused},
    {{400}, Where::kOpening, "your credit balance is too low", nullptr, Meaning::kKeyRefused},

    {{400, 413, 422, 500}, Where::kCode, "context_length", nullptr, Meaning::kContextTooLong},
    {{400, 413, 422, 500}, Where::kCode, "exceed_context_size", nullptr, Meaning::kContextTooLong},
    {{400, 413, 422, 500},
     Where::kText,
     "maximum context length",
     nullptr,
     Meaning::kContextTooLong},
    {{400, 413, 422, 500},
     Where::kText,
     "model's context length",
     nullptr,
     Meaning::kContextTooLong},
    {{400, 413, 422, 500},
     Where::kText,
     "available context size",
     nullptr,
     Meaning::kContextTooLong},
    {{400, 413, 422, 500}, Where::kText, "current length is", "limit is", Meaning::kContextTooLong},
    {{400, 413, 422}, Where::kText, "prompt is too long", nullptr, Meaning::kContextTooLong},
    {{400, 413, 422}, Where::kText, "maximum input length", nullptr, Meaning::kContextTooLong},
    {{400, 413, 422},
     Where::kText,
     "`inputs` tokens + `max_new_tokens`",
     nullptr,
     Meaning::kContextTooLong},
    {{400, 413, 422},
     Where::kText,
     "`inputs` must have less than",
     nullptr,
     Meaning::kContextTooLong},

    {{400, 403, 422, 451}, Where::kCode, "content_filter", nullptr, Meaning::kContentFilter},
    {{400, 403, 422, 451}, Where::kCode, "content_policy", nullptr, Meaning::kContentFilter},
    {{400, 403, 422, 451}, Where::kCode, "moderation", nullptr, Meaning::kContentFilter},
    {{400, 403, 422, 451},
     Where::kText,
     "responsibleaipolicyviolation",
     nullptr,
     Meaning::kContentFilter},
    {{400, 403, 422, 451},
     Where::kText,
     "content management policy",
     nullptr,
     Meaning::kContentFilter},

    {{400, 404, 422}, Where::kCode, "model_not_found", nullptr, Meaning::kModelNotFound},
    {{404}, Where::kCode, "deploymentnotfound", nullptr, Meaning::kModelNotFound},
    {{400, 404}, Where::kOpening, "request for unknown model", nullptr, Meaning::kModelNotFound},
    {{404}, Where::kText, "not found", "model", Meaning::kModelNotFound},
    {{404}, Where::kText, "not exist", "model", Meaning::kModelNotFound},
    {{404}, Where::kCode, "not_found_error", nullptr, Meaning::kModelNotFound},

    {{503, 500}, Where::kText, "loading model", nullptr, Meaning::kLoading},
    {{503, 500}, Where::kText, "model is loading", nullptr, Meaning::kLoading},
    {{503}, Where::kCode, "unavailable_error", nullptr, Meaning::kLoading},
    {{503}, Where::kText, "still loading", nullptr, Meaning::kLoading},
    {{503}, Where::kText, "warming up", nullptr, Meaning::kLoading},
    {{503}, Where::kText, "starting up", nullptr, Meaning::kLoading},
    {{503}, Where::kText, "not ready", nullptr, Meaning::kLoading},
};

struct InsideRow {
  const char* word;  // lower case, in code or type
  int status;
};

constexpr InsideRow kInside[] = {
    {"context_length", 400}, {"content_filter", 400}, {"rate_limit", 429},
    {"quota", 429},          {"queue_exceeded", 429}, {"too_many", 429},
    {"overloaded", 529},     {"unavailable", 503},    {"authentication", 401},
    {"api_key", 401},        {"permission", 403},     {"not_found", 404},
    {"notfound", 404},       {"timeout", 504},        {"invalid_request", 400},
    {"badrequest", 400},     {"bad_request", 400},    {"validation", 422},
};

std::string CodeAndType(const CallOutcome& outcome) {
  return absl::AsciiStrToLower(absl::StrCat(outcome.error_code, "\n", outcome.error_type));
}

std::string Text(const CallOutcome& outcome) {
  const std::string& told = outcome.error_message.empty() ? outcome.body : outcome.error_message;
  return absl::AsciiStrToLower(absl::string_view(told).substr(0, kLookedAtMax));
}

bool Fits(const int (&statuses)[5], int status) {
  for (const int one : statuses) {
    if (one == 0) return false;
    if (one == status) return true;
  }
  return false;
}

}  // namespace

Meaning MeaningOf(int status, const CallOutcome& outcome) {
  const std::string code = CodeAndType(outcome);
  const std::string text = Text(outcome);
  for (const WordRow& row : kWords) {
    if (!Fits(row.statuses, status)) continue;
    const auto has = [&](const char* word) {
      switch (row.where) {
        case Where::kCode:
          return absl::StrContains(code, word);
        case Where::kText:
          return absl::StrContains(code, word) || absl::StrContains(text, word);
        case Where::kOpening:
          return absl::StartsWith(text, word);
      }
      return false;
    };
    if (has(row.word) && (row.also == nullptr || has(row.also))) return row.meaning;
  }
  return Meaning::kNothing;
}

bool SaysQuota(const CallOutcome& outcome) {
  const std::string code = CodeAndType(outcome);
  if (absl::StrContains(code, "queue_exceeded")) return false;
  if (absl::StrContains(code, "quota") || absl::StrContains(code, "rate_limit") ||
      absl::StrContains(code, "too_many_tokens")) {
    return true;
  }
  const std::string text = Text(outcome);
  return absl::StrContains(text, "per minute limit") || absl::StrContains(text, "per hour limit") ||
         absl::StrContains(text, "per day limit") || absl::StrContains(text, "tokens per min") ||
         absl::StrContains(text, "requests per min");
}

int StatusOfErrorInside(const CallOutcome& outcome) {
  int number = 0;
  const auto is_error_status = [&number] { return number >= 400 && number <= 599; };
  if (absl::SimpleAtoi(outcome.error_code, &number) && is_error_status()) return number;
  const absl::string_view message = outcome.error_message;
  const size_t bracket = message.substr(0, kLookedAtMax).find('[');
  if (bracket != absl::string_view::npos && message.size() > bracket + 4 &&
      message[bracket + 4] == ']' && absl::SimpleAtoi(message.substr(bracket + 1, 3), &number) &&
      is_error_status()) {
    return number;
  }
  const std::string code = CodeAndType(outcome);
  for (const InsideRow& row : kInside) {
    if (absl::StrContains(code, row.word)) return row.status;
  }
  return 500;
}

}  // namespace nightshift
