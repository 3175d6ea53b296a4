// Asking the backends who they are before a job is handed in: a wrong address or model is found in
// seconds, not after the night.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_BACKEND_CHECK_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_BACKEND_CHECK_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/console.h"
#include "client/cli/failure.h"
#include "worker/backends/backend_spec.h"
#include "worker/backends/http_backends.h"

namespace nightshift {

// One probe takes at most this long; the backends are asked side by side.
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(8);

struct CheckedBackend {
  const BackendSpec* spec = nullptr;
  BackendProbe probe;
  bool usable() const { return probe.reachable && !probe.loading && !probe.key_refused; }
};

// Asks until at least one backend is usable, for `patience` (zero: once). False with the failure
// when none is. Those that are not are named in a warning: the job runs without them.
bool CheckBackends(const std::vector<BackendSpec>& specs, absl::Duration patience, Console& console,
                   std::vector<CheckedBackend>* checked, Failure* failure);

// "http://127.0.0.1:8000: vLLM, llama-3.1-8b"
std::string BackendLine(const CheckedBackend& backend);

// What the input says about models: how many requests name each; "" are those that name none.
using ModelCounts = std::map<std::string, int64_t>;

// Whether the usable backends have what the input names, as far as they list their models. False
// with the failure (which names what they have); true with `default_model`, the only model there
// is, when some requests name none.
bool ChooseModel(const std::vector<CheckedBackend>& checked, const ModelCounts& models,
                 std::string* default_model, Failure* failure);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_BACKEND_CHECK_H_
