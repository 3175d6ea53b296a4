#include "client/commands/job_input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/duplicate_finder.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/cli/console.h"
#include "client/input/file_hash.h"

namespace nightshift {
namespace {

std::string TemporaryFolder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

v1::BadLine MakeBadLine(int64_t line, const RequestLineError& error) {
  v1::BadLine bad;
  bad.set_line(line);
  bad.set_custom_id(error.custom_id);
  bad.set_field(error.field);
  bad.set_reason(error.reason);
  return bad;
}

// The bound that a body sets to its answer; 0 = none.
int64_t MaxTokensOf(const std::string& body) {
  const absl::StatusOr<std::vector<JsonMember>> members = SplitJsonObject(body);
  if (!members.ok()) return 0;
  for (const char* const key : {"max_completion_tokens", "max_tokens", "max_output_tokens"}) {
    const JsonMember* const member = FindMember(*members, key);
    int64_t number = 0;
    if (member != nullptr && absl::SimpleAtoi(member->raw_value, &number)) return number;
  }
  return 0;
}

// Equal custom_ids among `candidates` (pairs of lines whose hashes are equal), told by reading the
// input again. Returns the later lines with the first one of the same id.
absl::StatusOr<std::map<int64_t, std::pair<int64_t, std::string>>> ConfirmDuplicates(
    const InputOptions& options, const std::vector<std::pair<uint64_t, uint64_t>>& candidates) {
  std::map<int64_t, std::string> ids;
  for (const auto& [first, other] : candidates) {
    ids[static_cast<int64_t>(first)];
    ids[static_cast<int64_t>(other)];
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<InputReader> reader, InputReader::Open(options));
  InputItem item;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(&item));
    if (!more) break;
    if (!item.good) continue;
    if (const auto found = ids.find(item.line); found != ids.end())
      found->second = item.request.custom_id;
  }
  std::map<int64_t, std::pair<int64_t, std::string>> duplicates;
  for (const auto& [first, other] : candidates) {
    const std::string& id = ids[static_cast<int64_t>(other)];
    if (id == ids[static_cast<int64_t>(first)])
      duplicates[static_cast<int64_t>(other)] = {static_cast<int64_t>(first), id};
  }
  return duplicates;
}

void AddDuplicates(const std::map<int64_t, std::pair<int64_t, std::string>>& duplicates,
                   InputScan& scan) {
  for (const auto& [line, first] : duplicates) {
    v1::BadLine bad;
    bad.set_line(line);
    bad.set_custom_id(first.second);
    bad.set_field("custom_id");
    bad.set_reason(absl::StrCat("same custom_id as line ", first.first));
    scan.bad_lines.push_back(std::move(bad));
  }
  const auto count = static_cast<int64_t>(duplicates.size());
  scan.bad_count += count;
  scan.requests -= count;
  std::sort(scan.bad_lines.begin(), scan.bad_lines.end(),
            [](const v1::BadLine& a, const v1::BadLine& b) { return a.line() < b.line(); });
  if (scan.bad_lines.size() > kBadLinesShownMax) scan.bad_lines.resize(kBadLinesShownMax);
}

absl::StatusOr<std::string> Spool(int from, const std::string& shown) {
  const std::string folder = TemporaryFolder();
  std::string name = absl::StrCat(folder, "/nightshift-input-XXXXXX");
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(folder, ": no temporary file can be made there (", strerror(errno),
                     "); TMPDIR names another folder"));
  }
  unlink(name.c_str());
  std::string buffer(size_t{1} << 18, '\0');
  while (true) {
    const ssize_t length = read(from, buffer.data(), buffer.size());
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return absl::InvalidArgumentError(absl::StrCat(shown, ": ", strerror(errno)));
    if (length == 0) break;
    const int error = WriteAll(fd, absl::string_view(buffer.data(), static_cast<size_t>(length)));
    if (error != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("keeping ", shown, " in ", folder, ": ",
                                                       strerror(error),
                                                       "; TMPDIR names another folder"));
    }
  }
  return absl::StrCat("/proc/self/fd/", fd);
}

}  // namespace

absl::StatusOr<InputScan> ScanInput(const InputOptions& options, bool count_answers) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InputReader> reader, InputReader::Open(options));
  InputScan scan;
  DuplicateFinder::Options finder_options;
  finder_options.temporary_dir = TemporaryFolder();
  DuplicateFinder finder(finder_options);
  InputItem item;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(&item));
    if (!more) break;
    if (!item.good) {
      if (++scan.bad_count <= static_cast<int64_t>(kBadLinesShownMax))
        scan.bad_lines.push_back(MakeBadLine(item.line, item.error));
      continue;
    }
    ++scan.requests;
    ++scan.models[item.request.model];
    RETURN_IF_ERROR(finder.Add(item.request.custom_id, static_cast<uint64_t>(item.line)));
    if (count_answers) {
      const int64_t bound = MaxTokensOf(item.request.body);
      scan.max_tokens += bound;
      if (bound == 0) ++scan.without_max_tokens;
    }
  }
  scan.body_bytes = reader->stats().body_bytes;
  scan.format = reader->format();
  scan.warnings = reader->Warnings();
  std::vector<std::pair<uint64_t, uint64_t>> candidates;
  RETURN_IF_ERROR(finder.Finish(
      [&](uint64_t first, uint64_t other) { candidates.emplace_back(first, other); }));
  if (!candidates.empty()) {
    if (options.path == "-") {
      return absl::InvalidArgumentError(
          absl::StrCat("lines ", candidates[0].first, " and ", candidates[0].second,
                       " have the same custom_id; put the input into a file to see every such "
                       "line"));
    }
    ASSIGN_OR_RETURN(const auto duplicates, ConfirmDuplicates(options, candidates));
    AddDuplicates(duplicates, scan);
  }
  return scan;
}

bool NeedsSpooling(const std::string& path) {
  struct stat info;
  return path == "-" ||
         (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

absl::StatusOr<std::string> SpoolInput(const std::string& path) {
  const std::string shown = path == "-" ? "standard input" : path;
  if (path == "-" && isatty(STDIN_FILENO) == 1) {
    return absl::InvalidArgumentError(
        "standard input is a terminal: nothing is piped in; name a file, or pipe one in");
  }
  const int from = path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) return absl::InvalidArgumentError(absl::StrCat(shown, ": ", strerror(errno)));
  const absl::StatusOr<std::string> spooled = Spool(from, shown);
  if (from != STDIN_FILENO) close(from);
  return spooled;
}

std::string JobToken(const Settings& settings, const std::string& content_hash,
                     const InputOptions& options) {
  StreamHash hash;
  // Each with its length, so that no two lists of options look alike.
  const auto add = [&hash](absl::string_view text) {
    hash.Update(absl::StrCat(text.size(), ":", text));
  };
  add("nightshift run 1");
  add(content_hash);
  add(EndpointPath(options.request.endpoint));
  add(options.request.endpoint_given ? "given" : "default");
  add(options.request.model);
  add(absl::StrCat(options.request.max_tokens));
  add(options.request.system);
  add(options.prompt_template.has_value() ? *options.prompt_template : "");
  add(absl::StrCat(options.limit));
  add(settings.On("skip-bad-lines") ? "skip" : "refuse");
  add(settings.On("stream") ? "stream" : "whole");
  return absl::StrCat("run-", hash.Hex());
}

Failure RefusedInput(const std::string& name, int64_t good, int64_t bad_count,
                     std::vector<v1::BadLine> bad_lines) {
  Failure failure;
  failure.exit = ExitCode::kUsage;
  failure.code = "refused_input";
  failure.message =
      absl::StrCat(name, ": ", WithCommas(bad_count), " of ", WithCommas(good + bad_count),
                   good + bad_count == 1 ? " line" : " lines", " cannot be used; nothing was run");
  if (good > 0) {
    failure.hint = absl::StrCat("fix ", bad_count == 1 ? "this line" : "these lines",
                                ", or run the other ", WithCommas(good), " with --skip-bad-lines");
  } else {
    failure.hint = "nightshift help formats shows what a line looks like";
  }
  failure.bad_lines = std::move(bad_lines);
  failure.bad_count = bad_count;
  return failure;
}

std::pair<double, double> PromptTokenRange(int64_t body_bytes) {
  const auto bytes = static_cast<double>(body_bytes);
  return {bytes / 5, bytes / 3.5};
}

}  // namespace nightshift
