// What a command says and where: data on standard output, words for people on standard error.
//
// Thread-safe: the signal thread speaks through it too. Lives as long as the program.
#ifndef NIGHTSHIFT_CLIENT_CLI_CONSOLE_H_
#define NIGHTSHIFT_CLIENT_CLI_CONSOLE_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "client/cli/failure.h"

namespace nightshift {

class Console {
 public:
  struct Options {
    bool json = false;   // errors as JSON, no notes
    bool quiet = false;  // no notes
    std::string color = "auto";
  };

  Console() = default;
  void Configure(const Options& options);

  bool json() const { return options_.json; }
  bool quiet() const { return options_.quiet; }

  // Standard output, as it is. False when nobody reads it any more (a closed pipe): stop, without a
  // word. Other errors of writing are reported once, by OutputFailure().
  bool Out(absl::string_view bytes);
  // Why Out failed: 0, or an errno. EPIPE is the reader's right and no failure of ours.
  int output_errno() const { return output_errno_; }

  // Lines for a person on standard error; nothing under --quiet or --json. Each call is one write,
  // so that lines of two threads do not mix.
  void Note(absl::string_view lines);
  // Like Note, but also under --quiet, and under --json as {"type":"notice","message":…}: answers
  // to a signal, and what must not go unseen.
  void Say(absl::string_view lines);
  // "error: …", "hint: …", or the JSON document; returns the code to end with.
  int Fail(const Failure& failure);

  // Bold on standard error, or the text as it is where that has no colour.
  std::string BoldErr(absl::string_view text) const;

  // A line that is being redrawn on the terminal: it is taken away before anything else is written
  // to standard error. Null when there is none.
  void SetRedraw(std::function<void()> clear);

 private:
  void WriteErr(absl::string_view lines);

  Options options_;  // constant after Configure
  bool color_err_ = false;
  int output_errno_ = 0;

  Mutex mutex_;
  std::function<void()> clear_ ABSL_GUARDED_BY(mutex_);
};

// Writes everything, over interruptions and short writes; 0 or an errno.
int WriteAll(int fd, absl::string_view bytes);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_CONSOLE_H_
