// The commands that look at nothing but the program itself: help, version, config show.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/help.h"
#include "client/cli/url_text.h"
#include "client/commands/command.h"
#include "client/commands/version.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

const char* SourceWord(Source source) {
  switch (source) {
    case Source::kDefault:
      return "default";
    case Source::kUserFile:
      return "user_file";
    case Source::kConfigFile:
      return "config_file";
    case Source::kEnvironment:
      return "environment";
    case Source::kFlag:
      return "flag";
  }
  return "";
}

// Where a backend's key comes from, never the key.
std::string KeySource(const ConfiguredBackend& backend) {
  if (!backend.api_key_file.empty()) return absl::StrCat("file ", backend.api_key_file);
  if (backend.api_key_env.empty()) return "none";
  const char* const key = std::getenv(backend.api_key_env.c_str());
  return absl::StrCat("variable ", backend.api_key_env,
                      key != nullptr && *key != '\0' ? " (set)" : " (not set)");
}

// A URL may hold a password.
std::string ShownValue(const std::string& name, const std::vector<std::string>& values) {
  std::vector<std::string> shown;
  for (const std::string& value : values)
    shown.push_back(name == "backend" ? WithoutCredentials(value) : value);
  return absl::StrJoin(shown, ", ");
}

}  // namespace

int HelpCommand(CommandContext& context) {
  if (context.argument().empty()) {
    context.console.Out(OverviewHelp());
    return 0;
  }
  const absl::StatusOr<std::string> text = TopicHelp(context.argument());
  if (!text.ok())
    return context.console.Fail(
        UsageFailure(std::string(text.status().message()), "nightshift help lists everything"));
  context.console.Out(*text);
  return 0;
}

int VersionCommand(CommandContext& context) {
  if (context.console.json()) {
    Json document;
    document["name"] = "nightshift";
    document["version"] = Version();
    document["commit"] = Commit();
    context.console.Out(document.dump() + "\n");
  } else {
    context.console.Out(absl::StrCat("nightshift ", Version(), " (", Commit(), ")\n"));
  }
  return 0;
}

int ConfigCommand(CommandContext& context) {
  Json settings = Json::array();
  std::string text;
  for (const auto& [name, setting] : context.settings.all()) {
    if (name == "help") continue;
    const std::string value = ShownValue(name, setting.values);
    Json one;
    one["name"] = name;
    one["value"] = setting.values.empty() ? Json() : Json(value);
    one["source"] = SourceWord(setting.source);
    one["where"] = setting.where;
    settings.push_back(std::move(one));
    absl::StrAppend(&text, absl::StrFormat("%-20s %-26s %s\n", name,
                                           setting.values.empty() ? "-" : value, setting.where));
  }
  Json backends = Json::array();
  for (const ConfiguredBackend& backend : context.settings.backends()) {
    Json one;
    one["name"] = backend.name;
    one["kind"] = backend.kind.empty() ? "openai" : backend.kind;
    one["url"] = WithoutCredentials(backend.url);
    one["key"] = KeySource(backend);
    one["where"] = backend.where;
    absl::StrAppend(
        &text, absl::StrFormat("backend %-12s %s%s%s, key: %s  %s\n", backend.name, backend.kind,
                               backend.kind.empty() ? "" : " ", WithoutCredentials(backend.url),
                               KeySource(backend), backend.where));
    backends.push_back(std::move(one));
  }
  if (context.console.json()) {
    Json document;
    document["settings"] = std::move(settings);
    document["backends"] = std::move(backends);
    context.console.Out(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    context.console.Out(text);
  }
  return 0;
}

}  // namespace nightshift
