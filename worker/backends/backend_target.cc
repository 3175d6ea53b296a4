#include "worker/backends/backend_target.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
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

const char* KeyPrefix(KeyHeader header) {
  switch (header) {
    case KeyHeader::kApiKey:
      return "api-key: ";
    case KeyHeader::kXApiKey:
      return "x-api-key: ";
    case KeyHeader::kBearer:
      break;
  }
  return "Authorization: Bearer ";
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackendTarget>> BackendTarget::Create(BackendSpec spec) {
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(spec.base_url);
  if (!url.ok()) return Annotate(url.status(), absl::StrCat("backend \"", spec.name, "\""));
  const BackendKind* const kind = FindKind(spec.kind);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("backend \"", spec.name, "\": \"", spec.kind, "\" is no kind of backend"));
  }
  std::unique_ptr<BackendTarget> target(new BackendTarget(std::move(spec)));
  target->kind_ = kind;
  if (target->spec_.route == BackendRoute::kNative) target->native_ = kind->native;
  target->loopback_ = url->loopback;
  for (int number = 0;; ++number) {
    const absl::string_view path = EndpointPath(static_cast<Endpoint>(number));
    if (number > 0 && path.empty()) break;
    CurlUrlPtr& parsed = target->urls_.emplace_back();
    if (path.empty()) continue;
    parsed = target->UrlOf(path);
    if (parsed == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "backend \"", target->spec_.name, "\": ", target->spec_.base_url, path, " is no URL"));
    }
  }
  target->SetKey(target->spec_.api_key);
  return target;
}

void BackendTarget::SetKey(const std::string& key) {
  CurlListPtr headers;
  AddHeader(headers, "Content-Type: application/json");
  AddHeader(headers, "Expect:");           // else libcurl asks before a large body, and waits
  AddHeader(headers, "Accept-Encoding:");  // see Prepare
  if (!key.empty()) AddHeader(headers, absl::StrCat(KeyPrefix(kind_->key_header), key));
  if (kind_->header != nullptr) AddHeader(headers, kind_->header);
  headers_ = std::move(headers);
}

void BackendTarget::SetDetected(const BackendKind& kind, bool native) {
  if (spec_.route != BackendRoute::kDetected) return;
  kind_ = &kind;
  native_ = native ? kind.native : nullptr;
}

CurlUrlPtr BackendTarget::UrlOf(absl::string_view path) const {
  CurlUrlPtr url(curl_url());
  NIGHTSHIFT_CHECK(url != nullptr, "out of memory");
  const std::string text = absl::StrCat(spec_.base_url, path, spec_.query);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) url.reset();
  return url;
}

absl::StatusOr<std::string> BackendTarget::ModelOf(const CallRequest& request) const {
  ASSIGN_OR_RETURN(const std::vector<JsonMember> members, SplitJsonObject(request.body));
  const JsonMember* const model = FindMember(members, "model");
  if (model == nullptr || model->kind != JsonKind::kString) return std::string();
  return JsonStringText(model->raw_value);
}

absl::StatusOr<BackendTarget::Wire> BackendTarget::Translate(CallRequest& request,
                                                             bool stream) const {
  Wire wire;
  std::string model;
  if (kind_->deployments || !spec_.model_aliases.empty()) {
    ASSIGN_OR_RETURN(model, ModelOf(request));
  }
  if (const auto alias = spec_.model_aliases.find(model); alias != spec_.model_aliases.end()) {
    model = alias->second;
    std::string raw;
    AppendJsonString(raw, model);
    request.body = SpliceMember(request.body, "model", raw);
  }
  if (native_ != nullptr && native_->Speaks(request.endpoint)) {
    ASSIGN_OR_RETURN(const OpenAiBody body, ReadOpenAiBody(request.endpoint, request.body));
    ASSIGN_OR_RETURN(NativeCall call, native_->Translate(body, stream));
    wire.path = std::move(call.path);
    wire.body = std::move(call.body);
    wire.native = native_;
    wire.model = body.model;
    return wire;
  }
  const absl::string_view path = EndpointPath(request.endpoint);
  if (native_ != nullptr && !native_->has_openai_routes())
    return absl::InvalidArgumentError(absl::StrCat(kind_->server, " has nothing like ", path));
  if (kind_->deployments && !spec_.query.empty()) {
    if (model.empty())
      return absl::InvalidArgumentError("model: Azure is asked by the name of a deployment");
    wire.path = absl::StrCat("/openai/deployments/", UrlStep(model), path.substr(strlen("/v1")));
  }
  wire.body = std::move(request.body);
  if (!stream) return wire;
  // Anthropic's and the newer form of OpenAI's streams tell the usage unasked.
  if (request.endpoint == Endpoint::kChatCompletions || request.endpoint == Endpoint::kCompletions)
    wire.body = SpliceMember(wire.body, "stream_options", R"({"include_usage":true})");
  wire.body = SpliceMember(wire.body, "stream", "true");
  return wire;
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
  // Not asked for, since it would cost both sides more than it saves here; what proxies compress
  // all the same is unpacked.
  SetOption(easy, CURLOPT_ACCEPT_ENCODING, "identity");
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
