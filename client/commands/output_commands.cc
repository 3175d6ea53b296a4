// results and errors: the lines of a job's files.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_text.h"
#include "client/commands/output_files.h"

namespace nightshift {
namespace {

bool ErrorClasses(const Settings& settings, v1::ReadOutputRequest* request, Failure* failure) {
  for (const std::string& word : settings.List("class")) {
    v1::ErrorClass error_class = v1::ERROR_CLASS_NONE;
    if (!ParseErrorClass(word, &error_class)) {
      *failure = UsageFailure(absl::StrCat("--class: \"", word, "\" is no error class"),
                              absl::StrCat("the classes are ", KnownErrorClasses()));
      return false;
    }
    request->add_classes(error_class);
  }
  return true;
}

int Print(CommandContext& context, v1::ReadOutputRequest request) {
  Failure failure;
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  JobClient& client = connection->client();
  // Asked first, so that an unknown job leaves no file.
  const absl::StatusOr<v1::JobStatus> job = client.GetJob(std::string(context.argument()));
  if (!job.ok()) return context.console.Fail(CallFailure(job.status(), *connection));
  request.set_job(job->id());
  if (context.settings.On("first")) request.set_limit(1);
  request.set_follow(context.settings.On("follow"));
  if (request.follow() && connection->folder() && job->finished_at_ms() == 0) {
    request.set_follow(false);
    context.console.Note("Nothing works on this job now; these are the lines so far.\n");
  }
  const std::string path = context.settings.Text("output");
  if (!context.settings.On("force") && !MayReplace(job->id(), path)) {
    failure = UsageFailure(absl::StrCat(path, " exists and is not this job's file"),
                           "-o FILE writes elsewhere; --force replaces it");
    failure.code = "output_exists";
    return context.console.Fail(failure);
  }
  absl::StatusOr<std::unique_ptr<LineSink>> sink = LineSink::Open(path);
  if (!sink.ok()) return context.console.Fail(FailureFrom(sink.status()));

  const std::unique_ptr<OutputStream> stream = client.ReadOutput(request);
  int64_t count = 0;
  while (true) {
    const absl::StatusOr<std::optional<v1::OutputChunk>> chunk = stream->Next();
    if (!chunk.ok()) return context.console.Fail(CallFailure(chunk.status(), *connection));
    if (!chunk->has_value()) break;
    count += (*chunk)->count();
    const absl::Status status = (*sink)->Append((*chunk)->lines());
    if (absl::IsCancelled(status)) {
      // `| head` has seen enough. That is no failure and no news.
      stream->Cancel();
      return 0;
    }
    if (!status.ok()) return context.console.Fail(FailureFrom(status));
  }
  if (const absl::Status status = (*sink)->Commit(); !status.ok())
    return context.console.Fail(FailureFrom(status));
  if (path != "-")
    context.console.Note(
        absl::StrCat(WithCommas(count), count == 1 ? " line" : " lines", " in ", path, "\n"));
  return 0;
}

}  // namespace

int ResultsCommand(CommandContext& context) {
  v1::ReadOutputRequest request;
  request.set_kind(v1::ReadOutputRequest::RESULTS);
  return Print(context, std::move(request));
}

int ErrorsCommand(CommandContext& context) {
  v1::ReadOutputRequest request;
  request.set_kind(v1::ReadOutputRequest::ERRORS);
  Failure failure;
  if (!ErrorClasses(context.settings, &request, &failure)) return context.console.Fail(failure);
  return Print(context, std::move(request));
}

}  // namespace nightshift
