#include "worker/backends/backend_spec.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "worker/backends/http_url.h"
#include "worker/backends/key_file.h"
#include "worker/backends/kinds/kind.h"

namespace nightshift {
namespace {

constexpr char kCerebrasHost[] = "api.cerebras.ai";
constexpr char kCerebrasBaseUrl[] = "https://api.cerebras.ai";

// The version of Azure's interface that is asked for where the URL names none.
constexpr char kAzureApiVersion[] = "2024-10-21";

std::string KnownKinds() {
  return absl::StrJoin(AllKinds(), ", ", [](std::string* out, const BackendKind& kind) {
    absl::StrAppend(out, kind.name);
  });
}

// Takes the end off that people copy along with a base URL: an endpoint's whole path, or /v1.
// Returns whether there was one.
bool StripApiPath(std::string& path) {
  for (int number = 1;; ++number) {
    const absl::string_view endpoint = EndpointPath(static_cast<Endpoint>(number));
    if (endpoint.empty()) break;
    if (absl::EndsWith(path, endpoint)) {
      path.resize(path.size() - endpoint.size());
      return true;
    }
  }
  if (!absl::EndsWith(path, "/v1")) return false;
  path.resize(path.size() - 3);
  return true;
}

// The same for the ends that stand for a server's own protocol.
bool StripNativePath(const BackendKind& kind, std::string& path) {
  if (kind.native == nullptr) return false;
  for (const absl::string_view ending : kind.native->url_endings()) {
    if (!absl::EndsWith(path, ending)) continue;
    path.resize(path.size() - ending.size());
    return true;
  }
  return false;
}

// Which protocol the path of a URL asks for; what says so is taken off the path.
BackendRoute RouteOf(const BackendKind& kind, std::string& path) {
  while (absl::EndsWith(path, "/")) path.pop_back();
  BackendRoute route = kind.native_by_default ? BackendRoute::kNative : BackendRoute::kOpenAi;
  if (StripNativePath(kind, path)) {
    route = BackendRoute::kNative;
  } else if (StripApiPath(path)) {
    route = BackendRoute::kOpenAi;
  }
  while (absl::EndsWith(path, "/")) path.pop_back();
  return route;
}

// Takes "?api-version=…" off an address of Azure; the default where there is none.
absl::StatusOr<std::string> ApiVersion(absl::string_view& address) {
  std::string version = kAzureApiVersion;
  if (const size_t mark = address.find('?'); mark != absl::string_view::npos) {
    absl::string_view told = address.substr(mark + 1);
    address = address.substr(0, mark);
    if (!absl::ConsumePrefix(&told, "api-version="))
      return absl::InvalidArgumentError("behind the ? only api-version=… is understood");
    version = std::string(told);
  }
  for (const char c : version) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '.')
      return absl::InvalidArgumentError("the api-version holds a character that none has");
  }
  return absl::StrCat("?api-version=", version);
}

// What people copy of an address of Azure's has a deployment behind the resource.
void StripDeployment(std::string& path) {
  const size_t at = path.find("/openai/deployments");
  if (at != std::string::npos) path.resize(at);
}

// The key in `variable`; empty when it is not set.
absl::StatusOr<std::string> KeyFrom(const char* variable, GetEnv getenv) {
  const char* const value = getenv(variable);
  if (value == nullptr) return std::string();
  return CheckedKey(value, variable);
}

// Fills in spec.api_key from the first of the variables that may serve this backend.
absl::Status FindKey(const HttpUrl& url, GetEnv getenv, BackendSpec& spec) {
  for (const auto& [kind, variable] :
       {std::pair("cerebras", "CEREBRAS_API_KEY"), std::pair("azure", "AZURE_OPENAI_API_KEY"),
        std::pair("anthropic", "ANTHROPIC_API_KEY")}) {
    if (spec.kind != kind) continue;
    ASSIGN_OR_RETURN(spec.api_key, KeyFrom(variable, getenv));
    if (!spec.api_key.empty()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(spec.api_key, KeyFrom("NIGHTSHIFT_API_KEY", getenv));
  // Many people have this one set for other tools: it must not travel in clear text, nor to a
  // server of their own that never asked for it.
  if (spec.api_key.empty() && spec.kind == "openai" && !url.loopback && url.scheme == "https") {
    ASSIGN_OR_RETURN(spec.api_key, KeyFrom("OPENAI_API_KEY", getenv));
  }
  return absl::OkStatus();
}

absl::StatusOr<BackendSpec> PublicCerebras(GetEnv getenv) {
  BackendSpec spec;
  spec.name = "cerebras";
  spec.kind = "cerebras";
  spec.base_url = kCerebrasBaseUrl;
  ASSIGN_OR_RETURN(spec.api_key, KeyFrom("CEREBRAS_API_KEY", getenv));
  if (spec.api_key.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no API key for backend \"cerebras\"\n"
                     "  looked in: CEREBRAS_API_KEY (",
                     getenv("CEREBRAS_API_KEY") == nullptr ? "not set" : "empty",
                     "), api_key_file (not set)\n"
                     "hint: export CEREBRAS_API_KEY, or try --backend sim, which needs no key"));
  }
  return spec;
}

absl::Status NotABackend(absl::string_view text) {
  if (FindKind(text) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backend \"", text, "\" needs an address, as in --backend ", text, "=http://HOST:PORT"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend \"", text,
                   "\" is neither a URL (http://HOST:PORT/v1), nor KIND=URL, nor cerebras, nor "
                   "sim, nor the name of a backend in the configuration file"));
}

}  // namespace

absl::StatusOr<BackendSpec> ParseBackendSpec(absl::string_view text, GetEnv getenv) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "the backend is empty; give a URL such as http://127.0.0.1:8000/v1");
  }
  if (text == "sim") {
    BackendSpec spec;
    spec.name = "sim";
    spec.kind = "sim";
    return spec;
  }
  if (text == "cerebras") return PublicCerebras(getenv);

  BackendSpec spec;
  spec.kind = "openai";
  absl::string_view address = text;
  const size_t equals = text.find('=');
  const size_t scheme = text.find("://");
  if (equals != absl::string_view::npos && (scheme == absl::string_view::npos || equals < scheme)) {
    spec.kind = absl::AsciiStrToLower(text.substr(0, equals));
    address = text.substr(equals + 1);
    spec.kind_given = true;
    if (FindKind(spec.kind) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text.substr(0, equals), "\" is no kind of backend; the kinds are ", KnownKinds()));
    }
  } else if (scheme == absl::string_view::npos && !absl::StrContains(text, ":") &&
             !absl::StrContains(text, "/")) {
    return NotABackend(text);
  }

  const BackendKind& kind = *FindKind(spec.kind);
  if (kind.deployments) {
    ASSIGN_OR_RETURN(spec.query, ApiVersion(address));
  }
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(address);
  if (!url.ok()) {
    // The text itself is left out: it may hold a password.
    return absl::InvalidArgumentError(
        absl::StrCat("the address of the backend cannot be used: ", url.status().message()));
  }
  std::string path = url->path;
  const bool has_path = !path.empty();
  spec.route = RouteOf(kind, path);
  if (!spec.kind_given && !has_path) spec.route = BackendRoute::kDetected;
  if (kind.deployments) {
    // The newer form of Azure's interface is OpenAI's, below /openai/v1.
    if (absl::EndsWith(path, "/openai")) {
      spec.query.clear();
    } else {
      StripDeployment(path);
    }
  }
  spec.base_url = absl::StrCat(url->Origin(), path);
  spec.name =
      url->host == kCerebrasHost ? std::string("cerebras") : absl::StrCat(url->Authority(), path);
  RETURN_IF_ERROR(FindKey(*url, getenv, spec));
  return spec;
}

absl::Status AddRateLimits(absl::string_view text, BackendSpec* spec) {
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    ASSIGN_OR_RETURN(const RateLimit limit, ParseRateLimit(absl::StripAsciiWhitespace(part)));
    spec->rate_limits.push_back(limit);
  }
  return absl::OkStatus();
}

}  // namespace nightshift
