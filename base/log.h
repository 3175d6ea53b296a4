// Lines for the operator, on standard error. Thread-safe.
//
// Prompts, answers and secrets never go into a line above `debug` (and secrets not even there).
// Say what happened, what it means for the job, and what to type.
#ifndef NIGHTSHIFT_BASE_LOG_H_
#define NIGHTSHIFT_BASE_LOG_H_

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace nightshift {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Lines below `level` are dropped. The default is kWarning: a command line tool is quiet.
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);
void Log(LogLevel level, absl::string_view line);

template <typename... Args>
void LogDebug(const Args&... args) {
  if (LogEnabled(LogLevel::kDebug)) Log(LogLevel::kDebug, absl::StrCat(args...));
}
template <typename... Args>
void LogInfo(const Args&... args) {
  if (LogEnabled(LogLevel::kInfo)) Log(LogLevel::kInfo, absl::StrCat(args...));
}
template <typename... Args>
void LogWarning(const Args&... args) {
  if (LogEnabled(LogLevel::kWarning)) Log(LogLevel::kWarning, absl::StrCat(args...));
}
template <typename... Args>
void LogError(const Args&... args) {
  if (LogEnabled(LogLevel::kError)) Log(LogLevel::kError, absl::StrCat(args...));
}

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_LOG_H_
