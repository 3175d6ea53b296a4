// Which backends a command calls: --backend, with names from the configuration files.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_BACKEND_CHOICE_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_BACKEND_CHOICE_H_

#include <memory>
#include <string>
#include <vector>

#include "client/cli/failure.h"
#include "client/cli/settings.h"
#include "worker/backends/backend_spec.h"

namespace nightshift {

// True with at least one backend, names unique, keys read; the embedded simulated one has no URL
// yet. False with the failure: nothing chosen, not understood, or a key is missing. Where nothing
// is chosen and CEREBRAS_API_KEY is set, it is cerebras.
bool ChooseBackends(const Settings& settings, std::vector<BackendSpec>* backends, Failure* failure);

// One backend by spec or configured name.
absl::StatusOr<BackendSpec> ResolveBackend(const std::string& text,
                                           const std::vector<ConfiguredBackend>& configured);

// Servers inside this process, one per backend of kind "sim" without a URL.
class EmbeddedSims {
 public:
  EmbeddedSims();
  ~EmbeddedSims();

  // Starts them and fills in the URLs.
  absl::Status Start(std::vector<BackendSpec>& backends);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_BACKEND_CHOICE_H_
