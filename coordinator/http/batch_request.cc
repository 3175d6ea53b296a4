#include "coordinator/http/batch_request.h"

#include <openssl/sha.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/units.h"
#include "coordinator/http/api_reply.h"

namespace nightshift {
namespace {

using PlainJson = nlohmann::json;

// Objects within objects of a body; deeper ones are refused before they are read.
constexpr int kDepthMax = 16;

std::string HashOf(absl::string_view body) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

std::string KindOf(const PlainJson& value) {
  switch (value.type()) {
    case PlainJson::value_t::null:
      return "null";
    case PlainJson::value_t::object:
      return "an object";
    case PlainJson::value_t::array:
      return "an array";
    case PlainJson::value_t::string:
      return "a string";
    case PlainJson::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

// One body on its way through; each step returns false with the refusal filled.
class Reader {
 public:
  Reader(const PlainJson& body, v1::BatchRecord& record, HttpReply& refusal)
      : body_(body), record_(record), refusal_(refusal) {}

  bool Run() {
    std::string endpoint;
    if (!ShortText(body_, "", "input_file_id", kBatchWordBytesMax,
                   record_.mutable_input_file_id()) ||
        !Text(body_, "", "endpoint", &endpoint) ||
        !ShortText(body_, "", "completion_window", kBatchWordBytesMax,
                   record_.mutable_completion_window())) {
      return false;
    }
    return TakeEndpoint(endpoint) && TakeWindow() && TakeMetadata() && TakeOutputLifetime() &&
           TakeIdempotencyKey() && TakeOptions();
  }

 private:
  bool Refuse(absl::string_view param, absl::string_view code, std::string message) {
    refusal_ = BadParameter(param, code, std::move(message));
    return false;
  }
  bool WrongType(const std::string& param, absl::string_view wanted, const PlainJson& found) {
    return Refuse(param, "invalid_type",
                  absl::StrCat("Invalid type for '", param, "': expected ", wanted, ", but got ",
                               KindOf(found), " instead."));
  }
  bool WrongValue(const std::string& param, absl::string_view what) {
    return Refuse(param, "invalid_value", absl::StrCat("Invalid '", param, "': ", what));
  }

  // nullptr when it is absent or null.
  static const PlainJson* Member(const PlainJson& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  // A text that must be there.
  bool Text(const PlainJson& object, const std::string& prefix, const char* name,
            std::string* out) {
    const std::string param = prefix + name;
    const PlainJson* const value = Member(object, name);
    if (value == nullptr) {
      return Refuse(param, "missing_required_parameter",
                    absl::StrCat("Missing required parameter: '", param, "'."));
    }
    if (!value->is_string()) return WrongType(param, "a string", *value);
    *out = value->get<std::string>();
    return true;
  }

  bool ShortText(const PlainJson& object, const std::string& prefix, const char* name,
                 size_t bytes_max, std::string* out) {
    if (!Text(object, prefix, name, out)) return false;
    return out->size() <= bytes_max ||
           WrongValue(prefix + name, absl::StrCat("longer than ", bytes_max, " bytes."));
  }

  bool TakeEndpoint(const std::string& text) {
    const std::optional<Endpoint> endpoint = EndpointFromPath(text);
    if (!endpoint.has_value()) {
      return Refuse("endpoint", "invalid_value",
                    absl::StrCat("Invalid endpoint: '", text,
                                 "'. Supported values are: ", KnownEndpointPaths(), "."));
    }
    record_.set_endpoint(static_cast<v1::Endpoint>(*endpoint));
    return true;
  }

  bool TakeWindow() {
    const absl::StatusOr<absl::Duration> window = ParseDuration(record_.completion_window());
    if (!window.ok() || *window < absl::Seconds(1) || *window > absl::Seconds(kWindowSecondsMax)) {
      return WrongValue("completion_window", "expected a duration from 1s to 366d, such as '24h'.");
    }
    record_.set_window_ms(absl::ToInt64Milliseconds(*window));
    record_.mutable_options()->set_deadline_ms(record_.window_ms());
    return true;
  }

  bool TakeMetadata() {
    const PlainJson* const metadata = Member(body_, "metadata");
    if (metadata == nullptr) return true;
    if (!metadata->is_object()) return WrongType("metadata", "an object", *metadata);
    if (metadata->size() > kMetadataPairsMax) {
      return WrongValue("metadata", absl::StrCat("at most ", kMetadataPairsMax, " pairs."));
    }
    for (const auto& [key, value] : metadata->items()) {
      const std::string param = "metadata." + key;
      if (key.size() > kMetadataKeyBytesMax) {
        return WrongValue("metadata",
                          absl::StrCat("a key is longer than ", kMetadataKeyBytesMax, " bytes."));
      }
      if (!value.is_string()) return WrongType(param, "a string", value);
      std::string text = value.get<std::string>();
      if (text.size() > kMetadataValueBytesMax) {
        return WrongValue(param, absl::StrCat("longer than ", kMetadataValueBytesMax, " bytes."));
      }
      (*record_.mutable_metadata())[key] = std::move(text);
    }
    return true;
  }

  bool TakeOutputLifetime() {
    const PlainJson* const after = Member(body_, "output_expires_after");
    if (after == nullptr) return true;
    if (!after->is_object()) return WrongType("output_expires_after", "an object", *after);
    std::string anchor;
    if (!Text(*after, "output_expires_after.", "anchor", &anchor)) return false;
    if (anchor != "created_at") {
      return WrongValue("output_expires_after.anchor", "the supported value is 'created_at'.");
    }
    int64_t seconds = 0;
    if (!Number(*after, "output_expires_after.", "seconds", kOutputSecondsMin, kOutputSecondsMax,
                &seconds)) {
      return false;
    }
    if (seconds == 0) {
      return Refuse("output_expires_after.seconds", "missing_required_parameter",
                    "Missing required parameter: 'output_expires_after.seconds'.");
    }
    record_.set_output_expires_after_s(seconds);
    return true;
  }

  bool TakeIdempotencyKey() {
    if (Member(body_, "idempotency_key") == nullptr) return true;
    std::string key;
    if (!Text(body_, "", "idempotency_key", &key)) return false;
    return SetIdempotencyKey(key, &record_, &refusal_);
  }

  // A whole number that may be left out.
  bool Number(const PlainJson& object, const std::string& prefix, const char* name, int64_t low,
              int64_t high, int64_t* out) {
    const PlainJson* const value = Member(object, name);
    if (value == nullptr) return true;
    const std::string param = prefix + name;
    if (!value->is_number_integer()) return WrongType(param, "a whole number", *value);
    const bool huge = value->is_number_unsigned() &&
                      value->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    if (huge || value->get<int64_t>() < low || value->get<int64_t>() > high) {
      return WrongValue(param, absl::StrCat("expected a number from ", low, " to ", high, "."));
    }
    *out = value->get<int64_t>();
    return true;
  }

  bool Policy(const PlainJson& object, const std::string& prefix, const char* name,
              v1::AnswerPolicy* out) {
    if (Member(object, name) == nullptr) return true;
    std::string word;
    if (!Text(object, prefix, name, &word)) return false;
    if (word != "keep" && word != "retry" && word != "fail") {
      return WrongValue(prefix + name, "expected 'keep', 'retry' or 'fail'.");
    }
    *out = word == "retry"  ? v1::ANSWER_POLICY_RETRY
           : word == "fail" ? v1::ANSWER_POLICY_FAIL
                            : v1::ANSWER_POLICY_KEEP;
    return true;
  }

  bool TakeLabels(const PlainJson& own) {
    const PlainJson* const labels = Member(own, "labels");
    if (labels == nullptr) return true;
    if (!labels->is_object()) return WrongType("nightshift.labels", "an object", *labels);
    if (labels->size() > kLabelsMax) {
      return WrongValue("nightshift.labels", absl::StrCat("at most ", kLabelsMax, " labels."));
    }
    for (const auto& [key, value] : labels->items()) {
      if (key.empty()) return WrongValue("nightshift.labels", "a label has no name.");
      if (key.size() > kLabelKeyBytesMax) {
        return WrongValue("nightshift.labels", absl::StrCat("a label's name is longer than ",
                                                            kLabelKeyBytesMax, " bytes."));
      }
      const std::string param = "nightshift.labels." + key;
      if (!value.is_string()) return WrongType(param, "a string", value);
      std::string text = value.get<std::string>();
      if (text.size() > kLabelValueBytesMax) {
        return WrongValue(param, absl::StrCat("longer than ", kLabelValueBytesMax, " bytes."));
      }
      (*record_.mutable_options()->mutable_labels())[key] = std::move(text);
    }
    return true;
  }

  // What only nightshift knows.
  bool TakeOptions() {
    const PlainJson* const own = Member(body_, "nightshift");
    if (own == nullptr) return true;
    if (!own->is_object()) return WrongType("nightshift", "an object", *own);
    v1::JobOptions& options = *record_.mutable_options();
    const std::string prefix = "nightshift.";
    for (const auto& [key, value] : own->items()) {
      static constexpr absl::string_view kKnown[] = {"name",
                                                     "priority",
                                                     "max_attempts",
                                                     "budget_usd",
                                                     "budget_tokens",
                                                     "request_timeout",
                                                     "stop_on_error_rate",
                                                     "stream",
                                                     "labels",
                                                     "on_truncated",
                                                     "on_empty"};
      bool known = false;
      for (const absl::string_view name : kKnown) known = known || name == key;
      if (!known) return WrongValue(prefix + key, "there is no such option.");
    }
    int64_t priority = 0;
    int64_t attempts = 0;
    int64_t tokens = 0;
    constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
    if (!Number(*own, prefix, "priority", -kInt32Max, kInt32Max, &priority) ||
        !Number(*own, prefix, "max_attempts", 1, kInt32Max, &attempts) ||
        !Number(*own, prefix, "budget_tokens", 1, std::numeric_limits<int64_t>::max(), &tokens)) {
      return false;
    }
    options.set_priority(static_cast<int32_t>(priority));
    options.set_max_attempts(static_cast<int32_t>(attempts));
    options.set_budget_tokens(tokens);
    if (Member(*own, "name") != nullptr &&
        !ShortText(*own, prefix, "name", kBatchNameBytesMax, options.mutable_name())) {
      return false;
    }
    if (const PlainJson* const usd = Member(*own, "budget_usd"); usd != nullptr) {
      if (!usd->is_number()) return WrongType(prefix + "budget_usd", "a number", *usd);
      if (!(usd->get<double>() > 0)) return WrongValue(prefix + "budget_usd", "more than 0.");
      options.set_budget_usd(usd->get<double>());
    }
    v1::AnswerPolicy policy = v1::ANSWER_POLICY_KEEP;
    if (!Policy(*own, prefix, "on_truncated", &policy)) return false;
    options.set_on_truncated(policy);
    policy = v1::ANSWER_POLICY_KEEP;
    if (!Policy(*own, prefix, "on_empty", &policy)) return false;
    options.set_on_empty(policy);
    if (const PlainJson* const rate = Member(*own, "stop_on_error_rate"); rate != nullptr) {
      const std::string param = prefix + "stop_on_error_rate";
      if (!rate->is_number()) return WrongType(param, "a number", *rate);
      if (!(rate->get<double>() > 0 && rate->get<double>() <= 1)) {
        return WrongValue(param, "more than 0 and at most 1; 0.2 is a fifth of the answers.");
      }
      options.set_stop_on_error_rate(rate->get<double>());
    }
    if (const PlainJson* const stream = Member(*own, "stream"); stream != nullptr) {
      if (!stream->is_boolean()) return WrongType(prefix + "stream", "a boolean", *stream);
      options.set_stream(stream->get<bool>());
    }
    if (!TakeLabels(*own)) return false;
    if (Member(*own, "request_timeout") == nullptr) return true;
    std::string timeout;
    if (!Text(*own, prefix, "request_timeout", &timeout)) return false;
    const absl::StatusOr<absl::Duration> parsed = ParseDuration(timeout);
    if (!parsed.ok() || *parsed <= absl::ZeroDuration()) {
      return WrongValue(prefix + "request_timeout", "expected a duration, such as '30s'.");
    }
    options.set_request_timeout_ms(absl::ToInt64Milliseconds(*parsed));
    return true;
  }

  const PlainJson& body_;
  v1::BatchRecord& record_;
  HttpReply& refusal_;
};

}  // namespace

bool ParseBatchRequest(absl::string_view body, v1::BatchRecord* record, HttpReply* refusal) {
  bool too_deep = false;
  const PlainJson json = PlainJson::parse(
      body.begin(), body.end(),
      [&](int depth, PlainJson::parse_event_t, PlainJson&) {
        too_deep = too_deep || depth > kDepthMax;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  if (json.is_discarded() || too_deep || !json.is_object()) {
    *refusal = BadParameter("", "", "The body is not a JSON object.");
    return false;
  }
  record->set_body_hash(HashOf(body));
  return Reader(json, *record, *refusal).Run();
}

bool SetIdempotencyKey(absl::string_view key, v1::BatchRecord* record, HttpReply* refusal) {
  if (key.empty() || key.size() > kIdempotencyKeyBytesMax) {
    *refusal = BadParameter("idempotency_key", "invalid_value",
                            absl::StrCat("Invalid 'idempotency_key': expected 1 to ",
                                         kIdempotencyKeyBytesMax, " bytes."));
    return false;
  }
  record->set_idempotency_key(std::string(key));
  return true;
}

}  // namespace nightshift
