// The backends of a run: simulated ones started, all asked who they are.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_RUN_BACKENDS_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_RUN_BACKENDS_H_

#include <vector>

#include "client/cli/console.h"
#include "client/cli/settings.h"
#include "client/commands/backend_check.h"
#include "client/commands/backend_choice.h"

namespace nightshift {

// Keeps the embedded servers alive. Not thread-safe.
class RunBackends {
 public:
  explicit RunBackends(std::vector<BackendSpec> specs) : specs_(std::move(specs)) {}

  // Starts, asks, waits as --wait-for-backend says, and prints one line for each. False with the
  // failure when nobody could answer.
  bool Ready(const Settings& settings, Console& console, Failure* failure);

  const std::vector<CheckedBackend>& checked() const { return checked_; }
  // All of them: one that is away now may come back.
  const std::vector<BackendSpec>& specs() const { return specs_; }

 private:
  std::vector<BackendSpec> specs_;
  std::vector<CheckedBackend> checked_;
  EmbeddedSims sims_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_RUN_BACKENDS_H_
