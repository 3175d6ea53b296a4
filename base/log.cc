#include "base/log.h"

#include <atomic>

#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace nightshift {
namespace {

std::atomic<LogLevel> minimum_level{LogLevel::kWarning};

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made =
        new spdlog::logger("nightshift", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->set_level(spdlog::level::debug);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void SetLogLevel(LogLevel level) { minimum_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) { return level >= minimum_level.load(std::memory_order_relaxed); }

void Log(LogLevel level, absl::string_view line) {
  if (!LogEnabled(level)) return;
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace nightshift
