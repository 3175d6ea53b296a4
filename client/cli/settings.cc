#include "client/cli/settings.h"

#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace nightshift {
namespace {

void TakeFile(const ConfigFile& file, Source source, const CommandSpec* command,
              std::map<std::string, Setting>& settings) {
  for (const auto& [name, value] : file.values) {
    if (FindFlag(name, command) == nullptr) continue;  // another command's
    settings[name] = {value.values, source, absl::StrCat(file.path, ":", value.line)};
  }
}

void TakeBackends(const ConfigFile& file, std::vector<ConfiguredBackend>& backends) {
  for (const ConfiguredBackend& backend : file.backends) {
    bool replaced = false;
    for (ConfiguredBackend& known : backends) {
      if (known.name == backend.name) {
        known = backend;
        replaced = true;
      }
    }
    if (!replaced) backends.push_back(backend);
  }
}

absl::StatusOr<std::vector<std::string>> FromEnvironment(const FlagSpec& flag, const char* text) {
  std::vector<std::string> values;
  if (flag.type == FlagType::kList) {
    values = absl::StrSplit(text, ',', absl::SkipWhitespace());
  } else if (flag.type == FlagType::kSwitch) {
    const std::string lower = text;
    if (lower == "1" || lower == "yes" || lower == "on" || lower == "true")
      values = {"true"};
    else if (lower == "0" || lower == "no" || lower == "off" || lower == "false")
      values = {"false"};
    else
      return absl::InvalidArgumentError(
          absl::StrCat(EnvironmentName(flag.name), ": \"", text, "\" is neither true nor false"));
  } else {
    values = {text};
  }
  return values;
}

}  // namespace

absl::StatusOr<Settings> Settings::Resolve(const CommandSpec* command, const Given& given,
                                           bool files) {
  Settings result;
  std::map<std::string, Setting>& settings = result.settings_;
  for (const FlagSpec& flag : AllFlags()) {
    if (command != nullptr && (flag.commands & command->bit) == 0) continue;
    if (settings.count(flag.name) != 0) continue;
    Setting& setting = settings[flag.name];
    if (*flag.default_text != '\0') setting.values = {flag.default_text};
    setting.where = "default";
  }

  const std::string user_path = files ? UserConfigPath() : "";
  if (!user_path.empty()) {
    const absl::StatusOr<ConfigFile> file = ReadConfigFile(user_path);
    if (file.ok()) {
      TakeFile(*file, Source::kUserFile, command, settings);
      TakeBackends(*file, result.backends_);
    } else if (!absl::IsNotFound(file.status())) {
      return file.status();
    }
  }
  std::string config_path;
  if (const char* const text = std::getenv("NIGHTSHIFT_CONFIG"); text != nullptr)
    config_path = text;
  if (const auto flag = given.find("config"); flag != given.end())
    config_path = flag->second.back();
  if (files && !config_path.empty()) {
    ASSIGN_OR_RETURN(const ConfigFile file, ReadConfigFile(config_path));
    TakeFile(file, Source::kConfigFile, command, settings);
    TakeBackends(file, result.backends_);
  }

  for (auto& [name, setting] : settings) {
    const FlagSpec& flag = *FindFlag(name, command);
    if (name != "help") {
      const std::string variable = EnvironmentName(name);
      const char* const text = std::getenv(variable.c_str());
      if (text != nullptr && *text != '\0') {
        ASSIGN_OR_RETURN(std::vector<std::string> values, FromEnvironment(flag, text));
        setting = {std::move(values), Source::kEnvironment, variable};
      }
    }
    if (const auto found = given.find(name); found != given.end()) {
      std::vector<std::string> values = found->second;
      // A flag given twice: the last one, as everywhere.
      if (flag.type != FlagType::kList) values = {values.back()};
      setting = {std::move(values), Source::kFlag, absl::StrCat("--", name)};
    }
    for (const std::string& value : setting.values) {
      if (const absl::Status fits = CheckFlagValue(flag, value); !fits.ok())
        return Annotate(fits, setting.where);
    }
  }
  return result;
}

const Setting& Settings::Get(absl::string_view flag) const {
  const auto found = settings_.find(std::string(flag));
  NIGHTSHIFT_CHECK(found != settings_.end(), absl::StrCat("no flag --", flag, " here"));
  return found->second;
}

bool Settings::On(absl::string_view flag) const {
  const Setting& setting = Get(flag);
  return !setting.values.empty() && setting.values.back() == "true";
}

bool Settings::Has(absl::string_view flag) const { return !Get(flag).values.empty(); }

bool Settings::Chosen(absl::string_view flag) const {
  const Setting& setting = Get(flag);
  return setting.source != Source::kDefault && !setting.values.empty();
}

std::string Settings::Text(absl::string_view flag) const {
  const Setting& setting = Get(flag);
  return setting.values.empty() ? "" : setting.values.back();
}

const std::vector<std::string>& Settings::List(absl::string_view flag) const {
  return Get(flag).values;
}

int64_t Settings::Int(absl::string_view flag) const {
  int64_t number = 0;
  (void)absl::SimpleAtoi(Text(flag), &number);  // checked; not set is 0
  return number;
}

double Settings::Number(absl::string_view flag) const {
  double number = 0;
  (void)absl::SimpleAtod(Text(flag), &number);  // checked; not set is 0
  return number;
}

int64_t Settings::Size(absl::string_view flag) const {
  const absl::StatusOr<int64_t> size = ParseSize(Text(flag));
  return size.ok() ? *size : 0;
}

absl::Duration Settings::Span(absl::string_view flag) const {
  const absl::StatusOr<absl::Duration> span = ParseDuration(Text(flag));
  return span.ok() ? *span : absl::ZeroDuration();
}

}  // namespace nightshift
