// A configuration file: YAML, one key per flag, and `backends:` with named backends.
//
//   coordinator: 10.0.0.5:7440
//   max-attempts: 8
//   label: {team: search}
//   backends:
//     gpu:
//       kind: vllm
//       url: http://10.0.0.7:8000/v1
//       api_key_file: /etc/nightshift/gpu.key
//       price_prompt_per_million: 0.10
//       rate_limit: tokens/minute=1000000, requests/minute=1000
#ifndef NIGHTSHIFT_CLIENT_CLI_CONFIG_FILE_H_
#define NIGHTSHIFT_CLIENT_CLI_CONFIG_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace nightshift {

struct ConfigValue {
  std::vector<std::string> values;  // one, except for lists
  int line = 0;                     // from 1
};

// A backend as the file names it; the key itself stays where it is until it is needed.
struct ConfiguredBackend {
  std::string name;
  std::string kind;  // empty = any OpenAI-compatible server
  std::string url;   // empty = the kind's own
  std::string api_key_env;
  std::string api_key_file;
  double price_prompt_per_million = -1;
  double price_completion_per_million = -1;
  std::string rate_limits;  // "tokens/minute=1000000, requests/minute=1000"; not checked yet
  std::optional<absl::Duration> connect_timeout;
  std::optional<absl::Duration> request_timeout;
  std::map<std::string, std::string> model_aliases;  // what requests say -> what the backend says
  std::string where;                                 // "FILE:LINE"
};

struct ConfigFile {
  std::string path;
  std::map<std::string, ConfigValue> values;  // by flag name
  std::vector<ConfiguredBackend> backends;
};

// NotFound when there is no such file; InvalidArgument names file, line and key.
absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path);

// ~/.config/nightshift/config.yaml, or under XDG_CONFIG_HOME; empty when neither is known.
std::string UserConfigPath();

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_CONFIG_FILE_H_
