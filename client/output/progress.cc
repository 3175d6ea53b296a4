#include "client/output/progress.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/output/terminal.h"

namespace nightshift {
namespace {

constexpr absl::Duration kFrameInterval = absl::Milliseconds(100);
constexpr absl::string_view kHideCursor = "\x1B[?25l";
constexpr absl::string_view kShowCursor = "\x1B[?25h";
constexpr absl::string_view kEraseLine = "\r\x1B[K";

// The stream on which the cursor is hidden; -1 = none.
std::atomic<int> hidden_fd{-1};

void WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    // Nobody can be told that progress cannot be shown, and the job matters more.
    if (wrote <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
}

void OnCrash(int signal) {
  ShowCursorAgain();
  // The handler was for one time only: now the signal does what it would have done.
  raise(signal);
}

// A shell whose cursor is gone is a bad thing to be left with after a crash.
void ShowCursorWhateverHappens() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::atexit(ShowCursorAgain);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT}) {
      struct sigaction present {};
      if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
      struct sigaction ours {};
      ours.sa_handler = OnCrash;
      ours.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
      sigaction(signal, &ours, nullptr);
    }
  });
}

ProgressMode Decide(const Progress::Options& options) {
  if (options.mode != ProgressMode::kAuto) return options.mode;
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && absl::string_view(term) == "dumb";
  return IsTerminal(options.fd) && !dumb ? ProgressMode::kTty : ProgressMode::kPlain;
}

class StreamProgress final : public Progress {
 public:
  StreamProgress(const Options& options, Clock& clock)
      : options_(options), mode_(Decide(options)), clock_(clock), started_(clock.Now()) {}
  ~StreamProgress() override { Finish(); }

  void Update(const ProgressState& state) override {
    MutexLock lock(&mutex_);
    if (finished_) return;
    state_ = state;
    if (mode_ == ProgressMode::kTty) {
      MaybePaint();
    } else if (mode_ != ProgressMode::kNone) {
      MaybePrint();
    }
  }

  void PrintNow() override {
    MutexLock lock(&mutex_);
    if (!state_) return;
    const bool painted = !painted_.empty();
    std::string bytes = absl::StrCat(painted ? kEraseLine : "", Line(), "\n");
    if (painted) absl::StrAppend(&bytes, painted_);
    WriteAll(options_.fd, bytes);
  }

  void Clear() override {
    MutexLock lock(&mutex_);
    Erase();
  }

  void Finish() override {
    MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    Erase();
    ShowCursorAgain();
  }

 private:
  std::string Line() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = clock_.WallNow();
    return mode_ == ProgressMode::kJson ? JsonProgressLine(*state_, now, options_.zone)
                                        : PlainProgressLine(*state_, now, options_.zone);
  }

  void MaybePaint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const MonotonicTime now = clock_.Now();
    if (painted_at_ && now - *painted_at_ < kFrameInterval) return;
    std::string line = TerminalProgressLine(*state_, TerminalWidth(options_.fd));
    if (line == painted_) return;
    painted_at_ = now;
    std::string frame;
    if (hidden_fd.exchange(options_.fd) < 0) {
      ShowCursorWhateverHappens();
      absl::StrAppend(&frame, kHideCursor);
    }
    absl::StrAppend(&frame, kEraseLine, line);
    painted_ = std::move(line);
    WriteAll(options_.fd, frame);
  }

  void MaybePrint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const MonotonicTime now = clock_.Now();
    if (now - started_ < options_.interval) return;
    if (printed_ && *printed_ == *state_) return;
    started_ = now;
    printed_ = state_;
    WriteAll(options_.fd, absl::StrCat(Line(), "\n"));
  }

  void Erase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (painted_.empty()) return;
    painted_.clear();
    painted_at_.reset();
    WriteAll(options_.fd, kEraseLine);
  }

  const Options options_;
  const ProgressMode mode_;
  Clock& clock_;

  // Writing happens under it: frames and lines must not mix. A terminal that is held (Ctrl-S) holds
  // up whoever reports progress, and nobody else.
  Mutex mutex_;
  std::optional<ProgressState> state_ ABSL_GUARDED_BY(mutex_);
  std::optional<ProgressState> printed_ ABSL_GUARDED_BY(mutex_);
  MonotonicTime started_ ABSL_GUARDED_BY(mutex_);  // of the interval that runs
  std::string painted_ ABSL_GUARDED_BY(mutex_);    // what stands on the terminal
  std::optional<MonotonicTime> painted_at_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::StatusOr<ProgressMode> ParseProgressMode(absl::string_view word) {
  if (word == "auto") return ProgressMode::kAuto;
  if (word == "tty") return ProgressMode::kTty;
  if (word == "plain") return ProgressMode::kPlain;
  if (word == "json") return ProgressMode::kJson;
  if (word == "none") return ProgressMode::kNone;
  return absl::InvalidArgumentError(
      absl::StrCat("--progress: \"", word, "\" is none of auto, plain, tty, json, none"));
}

std::unique_ptr<Progress> Progress::Create(const Options& options, Clock& clock) {
  return std::make_unique<StreamProgress>(options, clock);
}

void ShowCursorAgain() {
  const int fd = hidden_fd.exchange(-1);
  if (fd < 0) return;
  const int kept = errno;
  const ssize_t ignored = write(fd, kShowCursor.data(), kShowCursor.size());
  static_cast<void>(ignored);
  errno = kept;
}

}  // namespace nightshift
