// Shows a job's progress on standard error while it runs: on a terminal one line that is painted
// over, elsewhere a plain line now and then. Used by `run`, `watch` and `submit --wait`.
#ifndef NIGHTSHIFT_CLIENT_OUTPUT_PROGRESS_H_
#define NIGHTSHIFT_CLIENT_OUTPUT_PROGRESS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/output/progress_line.h"

namespace nightshift {

enum class ProgressMode { kAuto, kTty, kPlain, kJson, kNone };
absl::StatusOr<ProgressMode> ParseProgressMode(absl::string_view word);  // the value of --progress

// Thread-safe: Update comes from the job, PrintNow from whoever handles SIGUSR1, Clear from whoever
// wants to write a message. Everything is one write(2) per frame or line.
class Progress {
 public:
  struct Options {
    ProgressMode mode =
        ProgressMode::kAuto;  // kAuto: kTty on a terminal (not TERM=dumb), else kPlain
    int fd = 2;               // borrowed
    absl::Duration interval = absl::Seconds(10);  // kPlain and kJson: at most one line per interval
    absl::TimeZone zone = absl::LocalTimeZone();
  };
  // `clock` must outlive it.
  static std::unique_ptr<Progress> Create(const Options& options, Clock& clock);
  // Finish, if that was not called.
  virtual ~Progress() = default;

  // The newest state. Paints or prints it when that is due: at most ten times a second on a
  // terminal; else once per interval and only if it differs from what the last line said. Call it
  // from time to time with the same state, too (a second apart is enough).
  virtual void Update(const ProgressState& state) = 0;

  // One plain line at once, whatever the mode (also kNone), if any state is known.
  virtual void PrintNow() = 0;

  // Takes the painted line away, so that something else can be written; the next Update paints it
  // anew. Nothing in other modes. Async-signal-safe it is not.
  virtual void Clear() = 0;

  // Takes the painted line away and shows the cursor again; nothing is painted from then on.
  virtual void Finish() = 0;
};

// Shows the cursor again if a Progress has hidden it: for ends of the program that run no
// destructors. Safe in a signal handler. Progress sees to crashes and exit() itself.
void ShowCursorAgain();

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_OUTPUT_PROGRESS_H_
