#include "client/commands/backend_choice.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/sim/sim_server.h"
#include "worker/backends/key_file.h"

namespace nightshift {
namespace {

const char* RealEnvironment(const char* name) { return std::getenv(name); }
// For a backend whose key the configuration names: whatever the parser finds is replaced.
const char* PlaceholderEnvironment(const char*) { return "replaced"; }

// The key as its file or variable has it; empty with `looked_in` filled when there is none.
absl::StatusOr<std::string> ConfiguredKey(const ConfiguredBackend& backend) {
  std::string looked_in;
  if (!backend.api_key_file.empty()) {
    absl::StatusOr<std::string> key = ReadKeyFile(backend.api_key_file);
    if (key.ok() || absl::IsInvalidArgument(key.status())) return key;
    looked_in = std::string(key.status().message());
  }
  if (!backend.api_key_env.empty()) {
    const char* const text = std::getenv(backend.api_key_env.c_str());
    ASSIGN_OR_RETURN(std::string key, CheckedKey(text == nullptr ? "" : text, backend.api_key_env));
    if (!key.empty()) return key;
    absl::StrAppend(&looked_in, looked_in.empty() ? "" : ", ", backend.api_key_env,
                    text == nullptr ? " (not set)" : " (empty)");
  }
  return absl::FailedPreconditionError(absl::StrCat("no API key for backend \"", backend.name,
                                                    "\"\n  looked in: ", looked_in, "\nhint: see ",
                                                    backend.where));
}

absl::StatusOr<BackendSpec> FromConfiguration(const ConfiguredBackend& backend) {
  std::string text = backend.url;
  if (text.empty())
    text = backend.kind;
  else if (!backend.kind.empty())
    text = absl::StrCat(backend.kind, "=", backend.url);
  const bool has_key = !backend.api_key_file.empty() || !backend.api_key_env.empty();
  absl::StatusOr<BackendSpec> spec =
      ParseBackendSpec(text, has_key ? PlaceholderEnvironment : RealEnvironment);
  if (!spec.ok())
    return Annotate(spec.status(), absl::StrCat(backend.where, ": backend ", backend.name));
  spec->name = backend.name;
  if (has_key) {
    ASSIGN_OR_RETURN(spec->api_key, ConfiguredKey(backend));
    spec->api_key_file = backend.api_key_file;
  }
  if (backend.price_prompt_per_million >= 0)
    spec->price_prompt_per_million = backend.price_prompt_per_million;
  if (backend.price_completion_per_million >= 0)
    spec->price_completion_per_million = backend.price_completion_per_million;
  RETURN_IF_ERROR(Annotate(AddRateLimits(backend.rate_limits, &*spec),
                           absl::StrCat(backend.where, ": backend ", backend.name)));
  if (backend.connect_timeout.has_value()) spec->connect_timeout = *backend.connect_timeout;
  if (backend.request_timeout.has_value()) spec->request_timeout = *backend.request_timeout;
  spec->model_aliases = backend.model_aliases;
  return spec;
}

// Whoever may look at this process may read its environment: once the keys have been read, they are
// overwritten there. Programs that it starts do not get them either.
void HideKeys(const std::vector<ConfiguredBackend>& configured) {
  std::vector<std::string> names = {"CEREBRAS_API_KEY", "NIGHTSHIFT_API_KEY", "OPENAI_API_KEY",
                                    "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY"};
  for (const ConfiguredBackend& backend : configured) names.push_back(backend.api_key_env);
  for (const std::string& name : names) {
    char* const text = name.empty() ? nullptr : std::getenv(name.c_str());
    if (text == nullptr) continue;
    std::memset(text, '*', std::strlen(text));
    unsetenv(name.c_str());
  }
}

// Statuses of the parser carry their hint as a last line.
Failure BackendFailure(const absl::Status& status) {
  std::string message(status.message());
  std::string hint;
  if (const size_t at = message.find("\nhint: "); at != std::string::npos) {
    hint = message.substr(at + 7);
    message.resize(at);
  }
  return UsageFailure(std::move(message), std::move(hint));
}

}  // namespace

absl::StatusOr<BackendSpec> ResolveBackend(const std::string& text,
                                           const std::vector<ConfiguredBackend>& configured) {
  for (const ConfiguredBackend& backend : configured) {
    if (backend.name == text) return FromConfiguration(backend);
  }
  return ParseBackendSpec(text, RealEnvironment);
}

struct EmbeddedSims::Impl {
  std::vector<std::unique_ptr<SimServer>> servers;
};

EmbeddedSims::EmbeddedSims() : impl_(std::make_unique<Impl>()) {}
EmbeddedSims::~EmbeddedSims() = default;

absl::Status EmbeddedSims::Start(std::vector<BackendSpec>& backends) {
  for (BackendSpec& backend : backends) {
    if (backend.kind != "sim" || !backend.base_url.empty()) continue;
    ASSIGN_OR_RETURN(std::unique_ptr<SimServer> server, SimServer::Start(SimServerOptions()));
    backend.base_url = server->url();
    impl_->servers.push_back(std::move(server));
  }
  return absl::OkStatus();
}

bool ChooseBackends(const Settings& settings, std::vector<BackendSpec>* backends,
                    Failure* failure) {
  std::vector<std::string> texts = settings.List("backend");
  if (texts.empty()) {
    const char* const key = std::getenv("CEREBRAS_API_KEY");
    if (key == nullptr || *key == '\0') {
      *failure = UsageFailure("no backend: who should answer?",
                              "--backend http://HOST:PORT/v1, --backend cerebras (with "
                              "CEREBRAS_API_KEY set), or --backend sim to try things out");
      return false;
    }
    texts = {"cerebras"};
  }
  BackendSpec given;
  for (const std::string& text : settings.List("rate-limit")) {
    const absl::Status added = AddRateLimits(text, &given);
    if (!added.ok()) {
      *failure = UsageFailure(absl::StrCat("--rate-limit: ", added.message()));
      return false;
    }
  }
  for (const std::string& text : texts) {
    absl::StatusOr<BackendSpec> spec = ResolveBackend(text, settings.backends());
    if (!spec.ok()) {
      *failure = BackendFailure(spec.status());
      return false;
    }
    for (const BackendSpec& other : *backends) {
      if (other.name == spec->name) {
        *failure = UsageFailure(absl::StrCat("backend ", spec->name, " is given twice"));
        return false;
      }
    }
    if (spec->rate_limits.empty()) spec->rate_limits = given.rate_limits;
    backends->push_back(*std::move(spec));
  }
  HideKeys(settings.backends());
  return true;
}

}  // namespace nightshift
