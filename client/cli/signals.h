// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as calls on a thread of their own, so that nothing ever
// happens in a signal handler.
//
// Block() runs in main before any other thread exists; every thread then inherits the mask. Start()
// starts the thread. One per process.
#ifndef NIGHTSHIFT_CLIENT_CLI_SIGNALS_H_
#define NIGHTSHIFT_CLIENT_CLI_SIGNALS_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/cli/exit_code.h"

namespace nightshift {

class SignalThread {
 public:
  // Also ignores SIGPIPE: a closed pipe is an error of write, not the end of the process. A SIGHUP
  // that is ignored (nohup) stays so.
  static void Block();

  SignalThread();
  ~SignalThread();

  // `stop(signal, count)` for each SIGINT or SIGTERM, count from 1; `usr1` for SIGUSR1 (may be
  // null). A terminal that goes away (SIGHUP) is the first of them or nothing: shells and systemd
  // send it beside another signal, which is nobody's second wish. Called on the thread. Without
  // handlers they end the process at once with 130, 143 or 129, which is right for a command that
  // has nothing to save. Returns when no call of the former handlers is under way; never call it
  // from a handler.
  void SetHandlers(std::function<void(int signal, int count)> stop, std::function<void()> usr1);
  void ClearHandlers() { SetHandlers(nullptr, nullptr); }

  // Called right before the process is ended at once, to put the terminal right.
  void SetLastWords(std::function<void()> last_words);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
ExitCode ExitCodeOfSignal(int signal);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_SIGNALS_H_
