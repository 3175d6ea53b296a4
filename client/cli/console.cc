#include "client/cli/console.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "client/output/terminal.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

bool Colored(const std::string& mode, int fd) {
  const absl::StatusOr<ColorMode> parsed = ParseColorMode(mode);
  return WantsColor(parsed.ok() ? *parsed : ColorMode::kAuto, fd);
}

Json BadLineJson(const v1::BadLine& bad) {
  Json one;
  one["line"] = bad.line();
  one["custom_id"] = bad.custom_id().empty() ? Json() : Json(bad.custom_id());
  one["field"] = bad.field().empty() ? Json() : Json(bad.field());
  one["reason"] = bad.reason();
  return one;
}

std::string BadLineText(const v1::BadLine& bad) {
  const std::string id = bad.custom_id().empty() ? "-" : absl::StrCat("\"", bad.custom_id(), "\"");
  return absl::StrFormat("  line %-5d %-6s %s%s%s\n", bad.line(), id, bad.field(),
                         bad.field().empty() ? "" : ": ", bad.reason());
}

}  // namespace

int WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      // The other end of a shared terminal or pipe may have made it non-blocking.
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, 1000);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void Console::Configure(const Options& options) {
  options_ = options;
  color_err_ = Colored(options.color, STDERR_FILENO);
}

bool Console::Out(absl::string_view bytes) {
  if (output_errno_ == 0) output_errno_ = WriteAll(STDOUT_FILENO, bytes);
  return output_errno_ == 0;
}

void Console::WriteErr(absl::string_view lines) {
  MutexLock lock(&mutex_);
  if (clear_) clear_();
  // Nobody reads it: there is nobody to tell.
  (void)WriteAll(STDERR_FILENO, lines);
}

void Console::Note(absl::string_view lines) {
  if (!options_.quiet && !options_.json) WriteErr(lines);
}

void Console::Say(absl::string_view lines) {
  if (!options_.json) return WriteErr(lines);
  Json notice;
  notice["type"] = "notice";
  notice["message"] = std::string(absl::StripTrailingAsciiWhitespace(lines));
  WriteErr(notice.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

int Console::Fail(const Failure& failure) {
  if (options_.json) {
    Json document;
    document["type"] = "error";
    document["code"] = failure.code;
    document["message"] = failure.message;
    document["hint"] = failure.hint.empty() ? Json() : Json(failure.hint);
    if (failure.bad_count > 0) {
      document["bad_count"] = failure.bad_count;
      document["bad_lines"] = Json::array();
      for (const v1::BadLine& bad : failure.bad_lines)
        document["bad_lines"].push_back(BadLineJson(bad));
    }
    WriteErr(document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    return static_cast<int>(failure.exit);
  }
  std::string text = absl::StrCat(Red("error:", color_err_), " ", failure.message, "\n");
  for (const v1::BadLine& bad : failure.bad_lines) text += BadLineText(bad);
  const int64_t more = failure.bad_count - static_cast<int64_t>(failure.bad_lines.size());
  if (more > 0) absl::StrAppend(&text, "  and ", WithCommas(more), " more\n");
  if (!failure.hint.empty()) absl::StrAppend(&text, "hint: ", failure.hint, "\n");
  WriteErr(text);
  return static_cast<int>(failure.exit);
}

std::string Console::BoldErr(absl::string_view text) const { return Bold(text, color_err_); }

void Console::SetRedraw(std::function<void()> clear) {
  MutexLock lock(&mutex_);
  clear_ = std::move(clear);
}

}  // namespace nightshift
