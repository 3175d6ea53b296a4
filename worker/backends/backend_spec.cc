#include "worker/backends/backend_spec.h"

#include <array>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "worker/backends/http_url.h"

namespace nightshift {
namespace {

constexpr char kCerebrasHost[] = "api.cerebras.ai";
constexpr char kCerebrasBaseUrl[] = "https://api.cerebras.ai";

constexpr std::array<absl::string_view, 9> kKinds = {
    "openai", "cerebras", "vllm", "sglang", "llamacpp", "tgi", "triton", "ollama", "trtllm"};

bool IsKind(absl::string_view text) {
  for (const absl::string_view kind : kKinds) {
    if (kind == text) return true;
  }
  return false;
}

std::string KnownKinds() { return absl::StrJoin(kKinds, ", "); }

// Takes the end off that people copy along with a base URL: an endpoint's whole path, or /v1.
void StripApiPath(std::string& path) {
  for (int number = 1;; ++number) {
    const absl::string_view endpoint = EndpointPath(static_cast<Endpoint>(number));
    if (endpoint.empty()) break;
    if (absl::EndsWith(path, endpoint)) {
      path.resize(path.size() - endpoint.size());
      return;
    }
  }
  if (absl::EndsWith(path, "/v1")) path.resize(path.size() - 3);
}

// The key in `variable`; empty when it is not set.
absl::StatusOr<std::string> KeyFrom(const char* variable, GetEnv getenv) {
  const char* const value = getenv(variable);
  if (value == nullptr) return std::string();
  const std::string key(absl::StripAsciiWhitespace(value));
  for (const char c : key) {
    // A line end in a header would be another header.
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f) {
      return absl::InvalidArgumentError(absl::StrCat(
          variable, " holds a blank or a control character inside the key; set it again"));
    }
  }
  return key;
}

// Fills in spec.api_key from the first of the variables that may serve this backend.
absl::Status FindKey(const HttpUrl& url, GetEnv getenv, BackendSpec& spec) {
  if (spec.kind == "cerebras") {
    ASSIGN_OR_RETURN(spec.api_key, KeyFrom("CEREBRAS_API_KEY", getenv));
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
  if (IsKind(text)) {
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
    if (!IsKind(spec.kind)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text.substr(0, equals), "\" is no kind of backend; the kinds are ", KnownKinds()));
    }
  } else if (scheme == absl::string_view::npos && !absl::StrContains(text, ":") &&
             !absl::StrContains(text, "/")) {
    return NotABackend(text);
  }

  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(address);
  if (!url.ok()) {
    // The text itself is left out: it may hold a password.
    return absl::InvalidArgumentError(
        absl::StrCat("the address of the backend cannot be used: ", url.status().message()));
  }
  std::string path = url->path;
  StripApiPath(path);
  while (absl::EndsWith(path, "/")) path.pop_back();
  spec.base_url = absl::StrCat(url->Origin(), path);
  spec.name =
      url->host == kCerebrasHost ? std::string("cerebras") : absl::StrCat(url->Authority(), path);
  RETURN_IF_ERROR(FindKey(*url, getenv, spec));
  return spec;
}

}  // namespace nightshift
