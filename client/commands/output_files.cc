#include "client/commands/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/console.h"
#include "client/commands/results_ahead.h"
#include "client/input/input_reader.h"
#include "client/output/atomic_file.h"

namespace nightshift {
namespace {

std::string Absolute(const std::string& path) {
  if (path == "-") return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

// Through links of either kind, too.
bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat one;
  struct stat other;
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && S_ISREG(one.st_mode) &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool IsPipe(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

class DescriptorSink final : public LineSink {
 public:
  DescriptorSink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  ~DescriptorSink() override {
    if (fd_ != STDOUT_FILENO) close(fd_);
  }
  absl::Status Append(absl::string_view lines) override {
    const int error = WriteAll(fd_, lines);
    if (error == 0) return absl::OkStatus();
    if (error == EPIPE) return absl::CancelledError("nobody reads any more");
    return absl::InternalError(absl::StrCat(name_, ": ", strerror(error)));
  }
  absl::Status Commit() override { return absl::OkStatus(); }

 private:
  const int fd_;
  const std::string name_;
};

class FileSink final : public LineSink {
 public:
  explicit FileSink(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}
  absl::Status Append(absl::string_view lines) override { return file_->Append(lines); }
  absl::Status Commit() override { return file_->Commit(); }

 private:
  const std::unique_ptr<AtomicFile> file_;
};

// Copies one kind of lines; the sink is made with the first of them, or at once with `always`.
absl::StatusOr<int64_t> CopyLines(JobClient& client, const std::string& job_id,
                                  v1::ReadOutputRequest::Kind kind, const std::string& path,
                                  bool always, const std::function<bool()>& cancelled,
                                  const std::function<void(const std::string&)>& look) {
  std::unique_ptr<LineSink> sink;
  if (always) {
    ASSIGN_OR_RETURN(sink, LineSink::Open(path));
  }
  v1::ReadOutputRequest request;
  request.set_job(job_id);
  request.set_kind(kind);
  const std::unique_ptr<OutputStream> stream = client.ReadOutput(request);
  int64_t count = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<v1::OutputChunk> chunk, stream->Next());
    if (cancelled && cancelled()) return absl::CancelledError("stopped while writing the files");
    if (!chunk.has_value()) break;
    if (chunk->lines().empty()) continue;
    if (sink == nullptr) {
      ASSIGN_OR_RETURN(sink, LineSink::Open(path));
    }
    count += chunk->count();
    if (look != nullptr) look(chunk->lines());
    RETURN_IF_ERROR(sink->Append(chunk->lines()));
  }
  if (sink != nullptr) RETURN_IF_ERROR(sink->Commit());
  return count;
}

}  // namespace

absl::StatusOr<OutputPaths> ChooseOutputPaths(const Settings& settings, const std::string& input) {
  const std::string stem = InputStem(input);
  OutputPaths paths;
  paths.results = Absolute(settings.Has("output") ? settings.Text("output")
                                                  : absl::StrCat(stem, ".results.jsonl"));
  paths.errors = Absolute(settings.Has("errors") ? settings.Text("errors")
                                                 : absl::StrCat(stem, ".errors.jsonl"));
  if (paths.results == paths.errors && !IsSpecialFile(paths.results))
    return absl::InvalidArgumentError(
        absl::StrCat(paths.results, " cannot be the results file and the errors file at once"));
  for (const std::string& path : {paths.results, paths.errors}) {
    if (path != "-" && input != "-" && (path == Absolute(input) || IsSameFile(path, input)))
      return absl::InvalidArgumentError(absl::StrCat(path, " is the input"));
  }
  return paths;
}

absl::Status CheckWritable(const OutputPaths& paths) {
  for (const std::string& path : {paths.results, paths.errors}) {
    if (IsPipe(path)) {
      // Opening it would be the whole output for its reader, or wait for one.
      if (access(path.c_str(), W_OK) != 0)
        return absl::PermissionDeniedError(
            absl::StrCat(path, " cannot be written: ", strerror(errno)));
      continue;
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<LineSink> sink, LineSink::Open(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LineSink>> LineSink::Open(const std::string& path) {
  if (path == "-") return std::make_unique<DescriptorSink>(STDOUT_FILENO, "standard output");
  if (IsSpecialFile(path)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
      return absl::PermissionDeniedError(
          absl::StrCat(path, " cannot be written: ", strerror(errno)));
    return std::make_unique<DescriptorSink>(fd, path);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  return std::make_unique<FileSink>(std::move(file));
}

absl::StatusOr<WrittenFiles> WriteOutputs(
    JobClient& client, const v1::JobStatus& job, const OutputPaths& paths,
    std::unique_ptr<ResultsAhead> ahead, const std::function<bool()>& cancelled,
    const std::function<void(const std::string&)>& look_at_errors) {
  WrittenFiles written;
  absl::StatusOr<int64_t> result_lines = absl::UnavailableError("not begun");
  if (ahead != nullptr) result_lines = ahead->Finish(cancelled);
  ahead.reset();  // what it could not finish takes no room beside the new one
  if (!result_lines.ok() && !absl::IsCancelled(result_lines.status())) {
    result_lines = CopyLines(client, job.id(), v1::ReadOutputRequest::RESULTS, paths.results,
                             /*always=*/true, cancelled, nullptr);
  }
  RETURN_IF_ERROR(result_lines.status());
  written.result_lines = *result_lines;
  ASSIGN_OR_RETURN(written.error_lines,
                   CopyLines(client, job.id(), v1::ReadOutputRequest::ERRORS, paths.errors,
                             /*always=*/false, cancelled, look_at_errors));
  if (written.error_lines == 0 && !NothingToLose(paths.errors) &&
      MayReplace(job.id(), paths.errors))
    unlink(paths.errors.c_str());
  return written;
}

bool IsSpecialFile(const std::string& path) {
  // A rename over a device would replace it.
  struct stat info;
  return path == "-" ||
         (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

bool NothingToLose(const std::string& path) {
  struct stat info;
  return path == "-" || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
         info.st_size == 0;
}

bool MayReplace(absl::string_view job_id, const std::string& path) {
  if (NothingToLose(path)) return true;
  if (job_id.empty()) return false;
  const std::string beginning =
      absl::StrCat("{\"id\":\"batch_req_", absl::StripPrefix(job_id, "job_"), "_");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::string there(beginning.size(), '\0');
  const ssize_t length = pread(fd, there.data(), there.size(), 0);
  close(fd);
  return length == static_cast<ssize_t>(beginning.size()) && there == beginning;
}

std::string ShortPath(const std::string& path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  if (error) return path;
  absl::string_view rest = path;
  if (absl::ConsumePrefix(&rest, here) && absl::ConsumePrefix(&rest, "/") && !rest.empty())
    return std::string(rest);
  return path;
}

}  // namespace nightshift
