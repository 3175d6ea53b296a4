#include "worker/backends/backend_target.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/backends/http_url.h"

namespace nightshift {
namespace {

void AddHeader(CurlListPtr& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  NIGHTSHIFT_CHECK(longer != nullptr, "out of memory");
  headers.release();
  headers.reset(longer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackendTarget>> BackendTarget::Create(BackendSpec spec) {
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(spec.base_url);
  if (!url.ok()) return Annotate(url.status(), absl::StrCat("backend \"", spec.name, "\""));
  std::unique_ptr<BackendTarget> target(new BackendTarget(std::move(spec)));
  target->loopback_ = url->loopback;
  for (int number = 0;; ++number) {
    const absl::string_view path = EndpointPath(static_cast<Endpoint>(number));
    if (number > 0 && path.empty()) break;
    CurlUrlPtr& parsed = target->urls_.emplace_back();
    if (path.empty()) continue;
    parsed.reset(curl_url());
    NIGHTSHIFT_CHECK(parsed != nullptr, "out of memory");
    const std::string text = absl::StrCat(target->spec_.base_url, path);
    const CURLUcode code = curl_url_set(parsed.get(), CURLUPART_URL, text.c_str(), 0);
    if (code != CURLUE_OK) {
      return absl::InvalidArgumentError(absl::StrCat("backend \"", target->spec_.name, "\": ", text,
                                                     " is no URL: ", curl_url_strerror(code)));
    }
  }
  AddHeader(target->headers_, "Content-Type: application/json");
  AddHeader(target->headers_, "Expect:");  // else libcurl asks before a large body, and waits
  if (!target->spec_.api_key.empty())
    AddHeader(target->headers_, absl::StrCat("Authorization: Bearer ", target->spec_.api_key));
  return target;
}

CURLU* BackendTarget::url(Endpoint endpoint) const {
  const size_t number = static_cast<size_t>(endpoint);
  return number < urls_.size() ? urls_[number].get() : nullptr;
}

void BackendTarget::Prepare(CURL* easy) const {
  SetOption(easy, CURLOPT_NOSIGNAL, 1L);
  SetOption(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  SetOption(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  SetOption(easy, CURLOPT_HTTPHEADER, headers_.get());
  SetOption(easy, CURLOPT_USERAGENT, UserAgent());
  SetOption(easy, CURLOPT_TCP_NODELAY, 1L);
  // A peer that vanished without a word is noticed after about a minute.
  SetOption(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  SetOption(easy, CURLOPT_TCP_KEEPIDLE, 30L);
  SetOption(easy, CURLOPT_TCP_KEEPINTVL, 10L);
  SetOption(easy, CURLOPT_DNS_CACHE_TIMEOUT, 60L);
  // Otherwise giving up a call whose host name is still being looked up would wait for the
  // resolver, and all other calls with it.
  SetOption(easy, CURLOPT_QUICK_EXIT, 1L);
  // A proxy of the environment is for the world outside: it does not know this machine's loopback.
  if (loopback_) SetOption(easy, CURLOPT_PROXY, "");
}

double BackendTarget::Cost(int64_t prompt_tokens, int64_t completion_tokens) const {
  // A price that is missing does not matter where nothing is to be paid for.
  if ((spec_.price_prompt_per_million < 0 && prompt_tokens > 0) ||
      (spec_.price_completion_per_million < 0 && completion_tokens > 0) ||
      (spec_.price_prompt_per_million < 0 && spec_.price_completion_per_million < 0))
    return -1;
  double cost = 0;
  if (prompt_tokens > 0) cost += spec_.price_prompt_per_million * prompt_tokens * 1e-6;
  if (completion_tokens > 0) cost += spec_.price_completion_per_million * completion_tokens * 1e-6;
  return cost;
}

}  // namespace nightshift
