// ProbeBackend: who is there, and is it ready. A handful of blocking requests on a handle of their
// own, within one deadline.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "worker/backends/answer_reader.h"
#include "worker/backends/backend_target.h"
#include "worker/backends/curl_handles.h"
#include "worker/backends/http_backends.h"
#include "worker/backends/response_headers.h"
#include "worker/backends/server_load.h"
#include "worker/backends/server_signs.h"
#include "worker/backends/transfer_end.h"

namespace nightshift {
namespace {

// A list of models that is longer than this is cut off and not believed.
constexpr size_t kProbeBytesMax = size_t{4} << 20;
// Requests that only satisfy curiosity may not take long.
constexpr absl::Duration kCuriosityMax = absl::Seconds(1);

struct ProbeAnswer {
  TransportResult transport;
  int status = 0;
  std::string body;
  ResponseHeaders headers;

  bool Complete() const { return transport.transport == Transport::kComplete; }
  bool Ok() const { return Complete() && status >= 200 && status < 300; }
};

size_t TakeBody(char* bytes, size_t size, size_t count, void* into) {
  std::string& body = static_cast<ProbeAnswer*>(into)->body;
  if (body.size() + size * count > kProbeBytesMax) return 0;
  body.append(bytes, size * count);
  return size * count;
}

size_t TakeHeader(char* bytes, size_t size, size_t count, void* into) {
  static_cast<ProbeAnswer*>(into)->headers.TakeLine(absl::string_view(bytes, size * count));
  return size * count;
}

class Prober {
 public:
  Prober(const BackendTarget& target, absl::Duration timeout)
      : target_(target),
        timeout_(timeout),
        deadline_(Clock::Real().Now() + timeout),
        easy_(curl_easy_init()) {
    NIGHTSHIFT_CHECK(easy_ != nullptr, "out of memory");
    target.Prepare(easy_.get());
    SetOption(easy_.get(), CURLOPT_ERRORBUFFER, message_);
    SetOption(easy_.get(), CURLOPT_WRITEFUNCTION, &TakeBody);
    SetOption(easy_.get(), CURLOPT_HEADERFUNCTION, &TakeHeader);
  }

  ProbeAnswer Get(const char* path, absl::Duration timeout_max = absl::InfiniteDuration()) {
    SetOption(easy_.get(), CURLOPT_HTTPGET, 1L);
    return Ask(path, timeout_max);
  }

  // `body` must outlive the call.
  ProbeAnswer Post(const char* path, const char* body, absl::Duration timeout_max) {
    SetOption(easy_.get(), CURLOPT_POSTFIELDS, body);
    return Ask(path, timeout_max);
  }

 private:
  ProbeAnswer Ask(const char* path, absl::Duration timeout_max) {
    ProbeAnswer answer;
    const absl::Duration left = std::min(deadline_ - Clock::Real().Now(), timeout_max);
    if (left <= absl::Milliseconds(1)) {
      answer.transport = {Transport::kTimeout,
                          absl::StrCat("no answer within ", InSeconds(timeout_))};
      return answer;
    }
    CURL* const easy = easy_.get();
    message_[0] = '\0';
    const absl::Duration connect = std::min(left, target_.spec().connect_timeout);
    SetOption(easy, CURLOPT_URL,
              absl::StrCat(target_.spec().base_url, path, target_.spec().query).c_str());
    SetOption(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(left)));
    SetOption(easy, CURLOPT_CONNECTTIMEOUT_MS,
              std::max<long>(1, absl::ToInt64Milliseconds(connect)));
    SetOption(easy, CURLOPT_WRITEDATA, &answer);
    SetOption(easy, CURLOPT_HEADERDATA, &answer);
    const CURLcode code = curl_easy_perform(easy);
    long number = 0;
    TransferEnd end;
    end.curl_code = code;
    if (curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number) == CURLE_OK) end.os_error = number;
    curl_off_t connected = 0;
    curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
    end.connected = connected > 0;
    end.any_byte_back = answer.headers.any();
    end.body_bytes = static_cast<int64_t>(answer.body.size());
    end.body_bytes_told = answer.headers.content_length();
    end.curl_message = message_;
    end.connect_timeout = connect;
    answer.transport = DescribeTransfer(end);
    if (code == CURLE_OPERATION_TIMEDOUT && end.connected)
      answer.transport = {Transport::kTimeout, absl::StrCat("no answer within ", InSeconds(left))};
    if (curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &number) == CURLE_OK)
      answer.status = static_cast<int>(number);
    return answer;
  }

  const BackendTarget& target_;
  const absl::Duration timeout_;
  const MonotonicTime deadline_;
  CurlEasyPtr easy_;
  char message_[CURL_ERROR_SIZE] = "";
};

// The backend's own words, or its status where it has none.
std::string InWords(ProbeAnswer& answer) {
  AnswerReader reader;
  const AnswerFacts facts = reader.Read(Endpoint::kUnspecified, answer.status, answer.body);
  if (facts.error_message.empty()) return absl::StrCat("HTTP status ", answer.status);
  return absl::StrCat("HTTP status ", answer.status, ": ", facts.error_message);
}

// Servers whose list of models does not tell who they are.
std::string ServerFromOwnPaths(Prober& prober) {
  struct OwnPath {
    const char* path;
    const char* holds;
    const char* server;
  };
  static constexpr OwnPath kOwnPaths[] = {
      {"/props", "default_generation_settings", "llama.cpp"},
      {"/api/version", "\"version\"", "Ollama"},
      {"/info", "max_concurrent_requests", "TGI"},
      {"/v2", "triton", "Triton"},
  };
  for (const OwnPath& own : kOwnPaths) {
    ProbeAnswer answer = prober.Get(own.path, kCuriosityMax);
    if (answer.Ok() && absl::StrContains(answer.body, own.holds)) return own.server;
  }
  return "";
}

// What it says of its health, where that is not "ready".
void TakeHealth(const BackendKind& kind, ProbeAnswer& health, BackendProbe& probe) {
  probe.reachable = true;
  probe.loading = health.status == 503 || health.status == kind.not_ready_status;
  probe.key_refused = health.status == 401 || health.status == 403;
  if (!health.Ok()) probe.detail = InWords(health);
}

// A server that is spoken to in a protocol without a list of models in OpenAI's form: its health,
// and the list as Triton has it.
void ProbeNative(const BackendKind& kind, Prober& prober, BackendProbe& probe) {
  probe.server = kind.server;
  ProbeAnswer health = prober.Get(kind.health_path);
  if (!health.Complete()) {
    probe.detail = health.transport.detail;
    return;
  }
  TakeHealth(kind, health, probe);
  if (!health.Ok()) return;
  ProbeAnswer index = prober.Post("/v2/repository/index", "{\"ready\":true}", kCuriosityMax);
  if (index.Ok()) probe.models = ReadModelIndex(index.body);
}

// A server with deployments does not list them; whether it takes the key is all that it tells.
void ProbeDeployments(Prober& prober, BackendProbe& probe) {
  ProbeAnswer models = prober.Get("/openai/models");
  if (!models.Complete()) {
    probe.detail = models.transport.detail;
    return;
  }
  probe.reachable = true;
  probe.key_refused = models.status == 401 || models.status == 403;
  if (probe.key_refused) probe.detail = InWords(models);
}

// Requests may call a model by either name.
void AddAliases(const BackendSpec& spec, BackendProbe& probe) {
  if (probe.models.empty()) return;
  for (const auto& [alias, model] : spec.model_aliases) {
    const bool there =
        std::find(probe.models.begin(), probe.models.end(), model) != probe.models.end();
    if (there && std::find(probe.models.begin(), probe.models.end(), alias) == probe.models.end())
      probe.models.push_back(alias);
  }
}

// The usual way: the list of models, and where there is none the server's word about its health.
void ProbeOpenAi(const BackendTarget& target, Prober& prober, BackendProbe& probe) {
  const BackendKind& kind = target.kind();
  ProbeAnswer models = prober.Get("/v1/models");
  if (!models.Complete()) {
    probe.detail = models.transport.detail;
    return;
  }
  probe.reachable = true;
  probe.server = ServerFromSigns("", models.headers.server());
  if (models.status == 401 || models.status == 403) {
    probe.key_refused = true;
    probe.detail = InWords(models);
    return;
  }
  if (models.Ok()) {
    const ModelList list = ReadModelList(models.body);
    probe.models = list.models;
    if (!list.readable) probe.detail = "GET /v1/models is answered with something else";
    std::string server = ServerFromSigns(list.owner, models.headers.server());
    if (server.empty()) server = ServerFromOwnPaths(prober);
    probe.server = std::move(server);
    return;
  }
  // It does not list its models, either because it has no such list or because it is not ready:
  // its own word about its health decides.
  probe.detail = InWords(models);
  ProbeAnswer health = prober.Get(kind.health_path);
  if (health.Complete() && !health.Ok() && health.status == kind.not_ready_status) {
    TakeHealth(kind, health, probe);
    return;
  }
  probe.loading = models.status == 503;
  if (probe.loading || target.spec().route != BackendRoute::kDetected) return;
  // A server without OpenAI's routes, perhaps one that we know.
  if (probe.server.empty()) probe.server = ServerFromOwnPaths(prober);
  const BackendKind* const found = FindKindOfServer(probe.server);
  if (found == nullptr || found->native == nullptr) return;
  probe.detail.clear();
  probe.native = true;
  if (!found->native->has_openai_routes()) ProbeNative(*found, prober, probe);
}

}  // namespace

BackendProbe ProbeBackend(const BackendSpec& spec, absl::Duration timeout) {
  BackendProbe probe;
  InitCurlOnce();
  const absl::StatusOr<std::unique_ptr<BackendTarget>> target = BackendTarget::Create(spec);
  if (!target.ok()) {
    probe.detail = std::string(target.status().message());
    return probe;
  }
  Prober prober(**target, timeout);
  const BackendKind& kind = (*target)->kind();
  if (kind.deployments && !spec.query.empty()) {
    ProbeDeployments(prober, probe);
  } else if ((*target)->native() != nullptr && !(*target)->native()->has_openai_routes()) {
    ProbeNative(kind, prober, probe);
  } else {
    ProbeOpenAi(**target, prober, probe);
  }
  if (spec.kind == "openai" && !spec.kind_given) {
    const BackendKind* const found = FindKindOfServer(probe.server);
    if (found != nullptr) probe.kind = found->name;
  }
  AddAliases(spec, probe);
  return probe;
}

v1::ServerLoad ProbeLoad(const BackendSpec& spec, const std::string& kind_name,
                         absl::Duration timeout) {
  v1::ServerLoad load;
  const BackendKind* const kind = FindKind(kind_name);
  if (kind == nullptr || kind->load_path == nullptr) return load;
  const absl::StatusOr<std::unique_ptr<BackendTarget>> target = BackendTarget::Create(spec);
  if (!target.ok()) return load;
  Prober prober(**target, timeout);
  for (const char* path : {kind->load_path, kind->load_path_more}) {
    if (path == nullptr) continue;
    const ProbeAnswer answer = prober.Get(path);
    if (!answer.Complete()) return load;
    if (!answer.Ok()) continue;
    ReadJsonLoad(answer.body, &load);
    ReadPrometheusLoad(answer.body, &load);
  }
  return load;
}

}  // namespace nightshift
