// The settings of one run of the program: every flag of its command with its value and where that
// came from. Constant once resolved.
#ifndef NIGHTSHIFT_CLIENT_CLI_SETTINGS_H_
#define NIGHTSHIFT_CLIENT_CLI_SETTINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/config_file.h"
#include "client/cli/flag_table.h"

namespace nightshift {

// Later ones win.
enum class Source { kDefault, kUserFile, kConfigFile, kEnvironment, kFlag };

struct Setting {
  std::vector<std::string> values;  // empty = not set
  Source source = Source::kDefault;
  std::string where;  // "default", "config.yaml:3", "NIGHTSHIFT_MODEL", "--model"
};

class Settings {
 public:
  using Given = std::map<std::string, std::vector<std::string>>;

  // `given` are the command line's flags. InvalidArgument names the flag, the variable or the line.
  // With null, every flag of the program is resolved (`config show`). Without `files` no
  // configuration file is read, so that a broken one does not keep anybody from reading help.
  static absl::StatusOr<Settings> Resolve(const CommandSpec* command, const Given& given,
                                          bool files = true);

  // All of these: the flag must be one of the command's, and the value has been checked.
  bool On(absl::string_view flag) const;
  bool Has(absl::string_view flag) const;  // set, be it by default
  // Somebody chose it: its source is not the default.
  bool Chosen(absl::string_view flag) const;
  std::string Text(absl::string_view flag) const;  // empty when not set
  const std::vector<std::string>& List(absl::string_view flag) const;
  int64_t Int(absl::string_view flag) const;          // 0 when not set
  double Number(absl::string_view flag) const;        // 0 when not set
  int64_t Size(absl::string_view flag) const;         // bytes
  absl::Duration Span(absl::string_view flag) const;  // zero when not set

  const std::map<std::string, Setting>& all() const { return settings_; }
  // Of both files; a name in the file of --config hides the same name in the user's file.
  const std::vector<ConfiguredBackend>& backends() const { return backends_; }

 private:
  const Setting& Get(absl::string_view flag) const;

  std::map<std::string, Setting> settings_;
  std::vector<ConfiguredBackend> backends_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_SETTINGS_H_
