#include "client/cli/config_file.h"

#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/cli/flag_table.h"
#include "client/cli/suggest.h"

namespace nightshift {
namespace {

// Keys are the flags' names; people also write them with underscores.
std::string Canonical(const std::string& key) { return absl::StrReplaceAll(key, {{"_", "-"}}); }

class Reader {
 public:
  explicit Reader(const std::string& path) { file_.path = path; }

  absl::StatusOr<ConfigFile> Read(const YAML::Node& root) {
    if (root.IsNull()) return std::move(file_);
    if (!root.IsMap()) return Refuse(root, "expected keys and values");
    std::set<std::string> seen;
    for (const auto& entry : root) {
      ASSIGN_OR_RETURN(const std::string written, Scalar(entry.first, "a key"));
      const std::string key = Canonical(written);
      if (!seen.insert(key).second) return Refuse(entry.first, "the key ", key, " is here twice");
      if (key == "backends") {
        RETURN_IF_ERROR(Backends(entry.second));
      } else {
        RETURN_IF_ERROR(Flag(key, entry.first, entry.second));
      }
    }
    return std::move(file_);
  }

 private:
  template <typename... Words>
  absl::Status Refuse(const YAML::Node& at, const Words&... words) const {
    return absl::InvalidArgumentError(absl::StrCat(Where(at), ": ", words...));
  }

  std::string Where(const YAML::Node& at) const {
    return absl::StrCat(file_.path, ":", at.Mark().line + 1);
  }

  absl::StatusOr<std::string> Scalar(const YAML::Node& node, absl::string_view key) const {
    if (!node.IsScalar()) return Refuse(node, key, ": expected one value");
    return node.Scalar();
  }

  absl::Status Flag(const std::string& key, const YAML::Node& at, const YAML::Node& value) {
    const FlagSpec* const flag = FindFlag(key, nullptr);
    if (key == "config" || key == "help") return Refuse(at, key, " has no meaning in a file");
    if (flag == nullptr) {
      std::vector<std::string> known = {"backends"};
      for (const FlagSpec& one : AllFlags()) known.emplace_back(one.name);
      const std::string nearest = Nearest(key, known);
      return Refuse(at, "unknown key ", key,
                    nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"));
    }
    ConfigValue read;
    read.line = at.Mark().line + 1;
    if (flag->type == FlagType::kList && value.IsSequence()) {
      for (const auto& item : value) {
        ASSIGN_OR_RETURN(std::string text, Scalar(item, key));
        read.values.push_back(std::move(text));
      }
    } else if (key == "label" && value.IsMap()) {
      for (const auto& item : value) {
        ASSIGN_OR_RETURN(const std::string name, Scalar(item.first, key));
        ASSIGN_OR_RETURN(const std::string text, Scalar(item.second, key));
        read.values.push_back(absl::StrCat(name, "=", text));
      }
    } else {
      ASSIGN_OR_RETURN(std::string text, Scalar(value, key));
      if (flag->type == FlagType::kSwitch) text = Switch(text);
      read.values.push_back(std::move(text));
    }
    for (const std::string& text : read.values) {
      if (const absl::Status fits = CheckFlagValue(*flag, text); !fits.ok())
        return Refuse(at, key, ": ", fits.message());
    }
    file_.values[key] = std::move(read);
    return absl::OkStatus();
  }

  static std::string Switch(const std::string& text) {
    if (text == "yes" || text == "on" || text == "True" || text == "TRUE") return "true";
    if (text == "no" || text == "off" || text == "False" || text == "FALSE") return "false";
    return text;
  }

  absl::Status Backends(const YAML::Node& node) {
    if (node.IsMap()) {
      for (const auto& entry : node) {
        ASSIGN_OR_RETURN(const std::string name, Scalar(entry.first, "backends"));
        RETURN_IF_ERROR(Backend(name, entry.first, entry.second));
      }
      return absl::OkStatus();
    }
    if (!node.IsSequence()) return Refuse(node, "backends: expected names with their settings");
    for (const auto& item : node) RETURN_IF_ERROR(Backend("", item, item));
    return absl::OkStatus();
  }

  absl::Status Backend(const std::string& name, const YAML::Node& at, const YAML::Node& node) {
    if (!node.IsMap()) return Refuse(at, "backend ", name, ": expected keys and values");
    ConfiguredBackend backend;
    backend.name = name;
    backend.where = Where(at);
    for (const auto& entry : node) {
      ASSIGN_OR_RETURN(const std::string key, Scalar(entry.first, "backends"));
      if (Canonical(key) == "model-aliases") {
        RETURN_IF_ERROR(ModelAliases(backend, entry.second));
        continue;
      }
      ASSIGN_OR_RETURN(const std::string text, Scalar(entry.second, key));
      const absl::Status set = SetBackendKey(backend, Canonical(key), text);
      if (!set.ok()) return Refuse(entry.first, "backend ", backend.name, ": ", set.message());
    }
    if (backend.name.empty()) return Refuse(at, "a backend needs a name");
    if (backend.url.empty() && backend.kind.empty())
      return Refuse(at, "backend ", backend.name, " needs a url");
    for (const ConfiguredBackend& other : file_.backends) {
      if (other.name == backend.name)
        return Refuse(at, "two backends are called ", backend.name, "; the first is at ",
                      other.where);
    }
    file_.backends.push_back(std::move(backend));
    return absl::OkStatus();
  }

  absl::Status ModelAliases(ConfiguredBackend& backend, const YAML::Node& node) {
    if (!node.IsMap()) {
      return Refuse(node, "backend ", backend.name,
                    ": model-aliases: expected the requests' names with this backend's");
    }
    for (const auto& entry : node) {
      ASSIGN_OR_RETURN(const std::string alias, Scalar(entry.first, "model-aliases"));
      ASSIGN_OR_RETURN(const std::string model, Scalar(entry.second, "model-aliases"));
      if (alias.empty() || model.empty())
        return Refuse(entry.first, "backend ", backend.name, ": model-aliases: a name is empty");
      backend.model_aliases[alias] = model;
    }
    return absl::OkStatus();
  }

  static absl::Status SetBackendKey(ConfiguredBackend& backend, const std::string& key,
                                    const std::string& text) {
    const auto price = [&](double& target) {
      if (!absl::SimpleAtod(text, &target) || !(target >= 0))
        return absl::InvalidArgumentError(
            absl::StrCat(key, ": \"", text, "\" is not a price in USD per million tokens"));
      return absl::OkStatus();
    };
    const auto duration = [&](std::optional<absl::Duration>& target) {
      const absl::StatusOr<absl::Duration> read = ParseDuration(text);
      if (!read.ok()) return Annotate(read.status(), key);
      if (*read < absl::Milliseconds(1))
        return absl::InvalidArgumentError(absl::StrCat(key, ": \"", text, "\" is too short"));
      target = *read;
      return absl::OkStatus();
    };
    if (key == "name") {
      backend.name = text;
    } else if (key == "kind") {
      backend.kind = text;
    } else if (key == "url") {
      backend.url = text;
    } else if (key == "api-key-env") {
      backend.api_key_env = text;
    } else if (key == "api-key-file") {
      backend.api_key_file = text;
    } else if (key == "price-prompt-per-million") {
      return price(backend.price_prompt_per_million);
    } else if (key == "price-completion-per-million") {
      return price(backend.price_completion_per_million);
    } else if (key == "rate-limit") {
      backend.rate_limits = text;
    } else if (key == "connect-timeout") {
      return duration(backend.connect_timeout);
    } else if (key == "request-timeout") {
      return duration(backend.request_timeout);
    } else if (key == "api-key") {
      return absl::InvalidArgumentError(
          "a key does not belong in this file; name the variable or the file that holds it with "
          "api_key_env or api_key_file");
    } else {
      const std::string nearest =
          Nearest(key, {"name", "kind", "url", "api-key-env", "api-key-file",
                        "price-prompt-per-million", "price-completion-per-million", "rate-limit",
                        "connect-timeout", "request-timeout", "model-aliases"});
      return absl::InvalidArgumentError(
          absl::StrCat("unknown key ", key,
                       nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    return absl::OkStatus();
  }

  ConfigFile file_;
};

}  // namespace

absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  std::stringstream text;
  text << in.rdbuf();
  try {
    return Reader(path).Read(YAML::Load(text.str()));
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", e.mark.line + 1, ": ", e.msg));
  }
}

std::string UserConfigPath() {
  const char* const xdg = std::getenv("XDG_CONFIG_HOME");
  if (xdg != nullptr && *xdg == '/') return absl::StrCat(xdg, "/nightshift/config.yaml");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0')
    return absl::StrCat(home, "/.config/nightshift/config.yaml");
  return "";
}

}  // namespace nightshift
