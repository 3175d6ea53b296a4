// The order of the questions: did a whole response come; is its status a success; if so, does it
// hold a whole answer, or an error in disguise; if not, do the error's words say more than the
// status; else the status decides.
//
// An outcome with a `code` is one without an HTTP answer in the records: either there was none, or
// what came must not be taken for one (half an answer, an error inside a 200, a redirect).
#include "worker/core/classifier.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "worker/core/clean_text.h"
#include "worker/core/error_words.h"

namespace nightshift {
namespace {

struct TransportRow {
  Transport transport;
  Verdict verdict;
  v1::ErrorClass error_class;
  const char* code;
  const char* message;
};

constexpr TransportRow kTransports[] = {
    {Transport::kConnectFailed, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR,
     "connection_error", "no connection to the backend"},
    {Transport::kResolveFailed, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR,
     "connection_error", "the backend's host name could not be resolved"},
    {Transport::kTlsFailed, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR,
     "connection_error", "no secure connection to the backend"},
    // It was closed while idle; the server has seen nothing of the request.
    {Transport::kStaleConnection, Verdict::kRetryNow, v1::ERROR_CLASS_CONNECTION_ERROR,
     "connection_error", "the backend had closed the connection"},
    // From here on the backend may have seen the request, and the request may be the reason.
    {Transport::kSendFailed, Verdict::kRetry, v1::ERROR_CLASS_CONNECTION_ERROR, "connection_error",
     "the connection broke while the request was being sent"},
    {Transport::kReset, Verdict::kRetry, v1::ERROR_CLASS_CONNECTION_ERROR, "connection_error",
     "the connection broke before the answer was complete"},
    {Transport::kTimeout, Verdict::kRetry, v1::ERROR_CLASS_TIMEOUT, "request_timeout",
     "no complete answer in time"},
    // It would be as large the next time.
    {Transport::kTooLarge, Verdict::kRejected, v1::ERROR_CLASS_INCOMPLETE_RESPONSE,
     "incomplete_response", "the answer is larger than this worker accepts and was cut off"},
    {Transport::kBadProtocol, Verdict::kRetry, v1::ERROR_CLASS_CONNECTION_ERROR, "connection_error",
     "what the backend sent is not HTTP"},
    {Transport::kNotSent, Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
     "unsupported_by_backend", "this kind of backend cannot be asked that"},
    {Transport::kAborted, Verdict::kAborted, v1::ERROR_CLASS_CANCELLED, "aborted",
     "the call was given up"},
};

struct StatusRow {
  int first;
  int last;
  Verdict verdict;
  v1::ErrorClass error_class;
};

// The first row that holds the status decides; the wide rows are at the end of their hundred.
constexpr StatusRow kStatuses[] = {
    {401, 403, Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    // The server gave up waiting. Uncharged, but not for ever: see the runner.
    {408, 408, Verdict::kOverload, v1::ERROR_CLASS_TIMEOUT},
    {409, 409, Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {410, 410, Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {421, 421, Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    // TGI: the generation failed. Also "locked" and "failed dependency" of proxies.
    {423, 424, Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {425, 425, Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR},
    {429, 429, Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED},
    {499, 499, Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    // 400, 404 (an unknown path; an unknown model is told by its words), 413, 422 and the rest.
    {400, 499, Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    // Not implemented, HTTP version not supported: no other time or place helps.
    {501, 501, Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    {503, 503, Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR},
    {505, 505, Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    // A network's login page, and a proxy that cannot reach or trust what is behind it.
    {511, 511, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR},
    {525, 526, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR},
    {529, 529, Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR},
    {530, 530, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR},
    {500, 599, Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
};

struct MeaningRow {
  Meaning meaning;
  Verdict verdict;
  v1::ErrorClass error_class;
};

constexpr MeaningRow kMeanings[] = {
    {Meaning::kKeyRefused, Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {Meaning::kContextTooLong, Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {Meaning::kContentFilter, Verdict::kRejected, v1::ERROR_CLASS_CONTENT_FILTER},
    {Meaning::kModelNotFound, Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {Meaning::kLoading, Verdict::kUnavailable, v1::ERROR_CLASS_SERVER_ERROR},
};

// The error file's word for an error that came inside a 200.
const char* CodeOf(v1::ErrorClass error_class) {
  switch (error_class) {
    case v1::ERROR_CLASS_RATE_LIMITED:
      return "rate_limited";
    case v1::ERROR_CLASS_TIMEOUT:
      return "request_timeout";
    case v1::ERROR_CLASS_CONNECTION_ERROR:
      return "connection_error";
    case v1::ERROR_CLASS_CONTEXT_TOO_LONG:
      return "context_too_long";
    case v1::ERROR_CLASS_INVALID_REQUEST:
      return "invalid_request";
    case v1::ERROR_CLASS_MODEL_NOT_FOUND:
      return "model_not_found";
    case v1::ERROR_CLASS_CONTENT_FILTER:
      return "content_filter";
    case v1::ERROR_CLASS_AUTH:
      return "auth";
    default:
      return "server_error";
  }
}

// Of a backend's own words: long enough for any sentence, short enough for a million error lines.
constexpr size_t kQuotedMax = 1000;

std::string WithDetail(absl::string_view sentence, absl::string_view detail) {
  if (detail.empty()) return std::string(sentence);
  return absl::StrCat(sentence, ": ", CleanText(detail, kQuotedMax));
}

Classification Incomplete(Verdict verdict, absl::string_view sentence, absl::string_view detail) {
  return {.verdict = verdict,
          .error_class = v1::ERROR_CLASS_INCOMPLETE_RESPONSE,
          .code = "incomplete_response",
          .message = WithDetail(sentence, detail)};
}

Classification ByStatus(int status, const CallOutcome& outcome) {
  Classification result;
  result.message =
      WithDetail(absl::StrCat("the backend answered HTTP ", status), outcome.error_message);
  const Meaning meaning = MeaningOf(status, outcome);
  for (const MeaningRow& row : kMeanings) {
    if (row.meaning != meaning) continue;
    result.verdict = row.verdict;
    result.error_class = row.error_class;
    return result;
  }
  for (const StatusRow& row : kStatuses) {
    if (status < row.first || status > row.last) continue;
    result.verdict = row.verdict;
    result.error_class = row.error_class;
    return result;
  }
  result.verdict = Verdict::kRetry;
  result.error_class = v1::ERROR_CLASS_CONNECTION_ERROR;
  result.code = "connection_error";
  result.message =
      absl::StrCat("the backend answered with the status ", status, ", which HTTP does not have");
  return result;
}

Classification OfSuccess(const CallOutcome& outcome) {
  if (!outcome.error_message.empty() || !outcome.error_type.empty() ||
      !outcome.error_code.empty()) {
    const int status = StatusOfErrorInside(outcome);
    Classification result = ByStatus(status, outcome);
    result.code = CodeOf(result.error_class);
    result.message =
        WithDetail("the backend reported an error inside a successful response",
                   outcome.error_message.empty() ? outcome.error_code : outcome.error_message);
    return result;
  }
  if (!outcome.incomplete.empty()) {
    return Incomplete(Verdict::kRetry, "the answer broke off", outcome.incomplete);
  }
  if (outcome.has_answer) {
    Classification answered;
    answered.verdict = Verdict::kAnswered;
    return answered;
  }
  if (outcome.http_status == 202) {
    // It took the request to work on it later and elsewhere: asking again would only make it work
    // twice, and no answer will ever come this way.
    return Incomplete(Verdict::kRejected,
                      "the backend took the request (HTTP 202) but does not answer it on the same "
                      "connection; it is not a server that nightshift can use",
                      "");
  }
  if (!outcome.body_is_json) {
    return Incomplete(Verdict::kRetry,
                      outcome.body.empty() ? "the response is empty" : "the response is not JSON",
                      "");
  }
  return Incomplete(Verdict::kRetry, "the response is JSON but holds no answer", "");
}

}  // namespace

Classification Classify(const CallOutcome& outcome) {
  if (outcome.transport != Transport::kComplete) {
    for (const TransportRow& row : kTransports) {
      if (row.transport != outcome.transport) continue;
      return {.verdict = row.verdict,
              .error_class = row.error_class,
              .code = row.code,
              .message = WithDetail(row.message, outcome.transport_detail)};
    }
  }
  const int status = outcome.http_status;
  if (status >= 200 && status <= 299) return OfSuccess(outcome);
  if (status >= 300 && status <= 399) {
    // Followed, it would take the key and the prompts somewhere nobody named.
    return {.verdict = Verdict::kRejected,
            .error_class = v1::ERROR_CLASS_INVALID_REQUEST,
            .code = "unexpected_redirect",
            .message = WithDetail(
                absl::StrCat("the backend answered HTTP ", status,
                             ", a redirect to another location, and redirects are not followed; "
                             "give the final address as the backend's URL"),
                outcome.error_message)};
  }
  return ByStatus(status, outcome);
}

}  // namespace nightshift
