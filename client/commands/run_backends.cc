#include "client/commands/run_backends.h"

#include "absl/strings/str_cat.h"

namespace nightshift {

bool RunBackends::Ready(const Settings& settings, Console& console, Failure* failure) {
  if (const absl::Status started = sims_.Start(specs_); !started.ok()) {
    *failure = FailureFrom(started);
    return false;
  }
  if (!CheckBackends(specs_, settings.Span("wait-for-backend"), console, &checked_, failure))
    return false;
  for (const CheckedBackend& backend : checked_) {
    if (backend.usable()) console.Note(absl::StrCat("Backend  ", BackendLine(backend), "\n"));
  }
  return true;
}

}  // namespace nightshift
