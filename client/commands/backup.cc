// backup create, list and restore.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/units.h"
#include "client/cli/shell_quote.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_text.h"
#include "coordinator/backup_folder.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

// Of --backup-dir; empty when it was not said.
std::string ChosenFolder(const Settings& settings) {
  if (!settings.Has("backup-dir")) return "";
  std::error_code error;
  const std::string folder =
      std::filesystem::absolute(settings.Text("backup-dir"), error).lexically_normal().string();
  return error ? settings.Text("backup-dir") : folder;
}

// Where backups are when no coordinator is asked.
std::string LocalFolder(const Settings& settings) {
  const std::string chosen = ChosenFolder(settings);
  return chosen.empty() ? DefaultBackupFolder(settings.Text("data-dir")) : chosen;
}

std::string JobsText(const v1::BackupInfo& backup) {
  return absl::StrCat(WithCommas(backup.jobs()), backup.jobs() == 1 ? " job" : " jobs", ", ",
                      WithCommas(backup.unfinished_jobs()), " unfinished, ",
                      HumanSize(backup.bytes()));
}

Failure BackupFailure(const absl::Status& status) {
  Failure failure = FailureFrom(status);
  if (absl::IsNotFound(status)) {
    failure.code = "unknown_backup";
    failure.hint = "nightshift backup list shows which there are; --backup-dir says where";
  } else if (absl::IsAlreadyExists(status)) {
    failure.exit = ExitCode::kUsage;
    failure.code = "data_dir_not_empty";
  } else if (absl::IsFailedPrecondition(status)) {
    failure.exit = ExitCode::kInternal;
    failure.code = "folder_unusable";
  } else if (absl::IsDataLoss(status)) {
    failure.code = "backup_damaged";
    failure.hint = "nightshift backup list shows the others; restore takes a number";
  } else if (absl::IsUnavailable(status) || absl::IsPermissionDenied(status)) {
    failure.exit = ExitCode::kInternal;
    failure.code = "backup";
  }
  return failure;
}

int Create(CommandContext& context) {
  Failure failure;
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  v1::CreateBackupRequest request;
  request.set_folder(ChosenFolder(context.settings));
  request.set_keep(static_cast<int32_t>(context.settings.Int("keep")));
  const absl::StatusOr<v1::CreateBackupReply> made = connection->client().CreateBackup(request);
  if (!made.ok()) {
    const bool unreachable =
        absl::IsUnavailable(made.status()) || absl::IsUnauthenticated(made.status());
    return context.console.Fail(unreachable ? CallFailure(made.status(), *connection)
                                            : BackupFailure(made.status()));
  }
  if (context.console.json()) {
    context.console.Out(Dump(BackupJson(made->backup(), made->folder())) + "\n");
  } else {
    context.console.Out(absl::StrCat("Backup ", made->backup().number(), " in ", made->folder(),
                                     ": ", JobsText(made->backup()), ", read back and whole.\n"));
  }
  return 0;
}

int Print(CommandContext& context, const v1::ListBackupsReply& backups) {
  if (context.console.json()) {
    Json document = Json::array();
    for (const v1::BackupInfo& backup : backups.backups()) {
      document.push_back(BackupJson(backup, backups.folder()));
    }
    context.console.Out(Dump(document) + "\n");
  } else {
    context.console.Out(BackupTable(backups, absl::Now()));
  }
  return 0;
}

// A folder that was named is looked at, and so are the backups of a data folder, which may be lost
// or in use; otherwise the coordinator is asked, which knows where it puts them.
int List(CommandContext& context) {
  const Settings& settings = context.settings;
  Failure failure;
  const bool folder_chosen = settings.Has("backup-dir") || Connection::FolderChosen(settings);
  std::unique_ptr<Connection> connection;
  if (!folder_chosen) {
    const bool must_answer = settings.Chosen("coordinator");
    connection = Connection::Open(
        settings, must_answer ? Connection::Kind::kNetwork : Connection::Kind::kPresent, &failure);
    if (connection == nullptr && must_answer) return context.console.Fail(failure);
  }
  if (connection == nullptr) {
    const absl::StatusOr<v1::ListBackupsReply> backups = ListBackupsIn(LocalFolder(settings));
    if (!backups.ok()) return context.console.Fail(BackupFailure(backups.status()));
    return Print(context, *backups);
  }
  const absl::StatusOr<v1::ListBackupsReply> backups =
      connection->client().ListBackups(v1::ListBackupsRequest());
  if (!backups.ok()) return context.console.Fail(CallFailure(backups.status(), *connection));
  return Print(context, *backups);
}

int Restore(CommandContext& context, const std::string& which) {
  const Settings& settings = context.settings;
  int64_t number = 0;
  if (!which.empty() && (!absl::SimpleAtoi(which, &number) || number < 1)) {
    return context.console.Fail(UsageFailure(absl::StrCat("\"", which, "\" is no backup's number"),
                                             "nightshift backup list shows the numbers"));
  }
  const std::string data_dir = settings.Text("data-dir");
  const std::string folder = LocalFolder(settings);
  const absl::StatusOr<v1::BackupInfo> restored = RestoreDataDir(folder, number, data_dir);
  if (!restored.ok()) return context.console.Fail(BackupFailure(restored.status()));
  if (context.console.json()) {
    Json document = BackupJson(*restored, folder);
    document["data_dir"] = data_dir;
    context.console.Out(Dump(document) + "\n");
    return 0;
  }
  const std::string flags = absl::StrCat(" --data-dir ", ShellQuote(data_dir));
  context.console.Out(absl::StrCat(
      "Restored backup ", restored->number(), " of ",
      ClockText(absl::FromUnixMillis(restored->created_at_ms()), absl::Now()), " to ", data_dir,
      ": ", JobsText(*restored), ".\n\nNext\n  prove it    nightshift audit", flags,
      "\n  go on       nightshift coordinator", flags, ", or the same `nightshift run` again\n"));
  return 0;
}

}  // namespace

int BackupCommand(CommandContext& context) {
  const std::string what(context.argument());
  const auto& words = context.invocation.positionals;
  if (what != "restore" && words.size() > 1) {
    return context.console.Fail(
        UsageFailure(absl::StrCat("\"", words[1], "\" is one word too many"),
                     absl::StrCat("usage: nightshift backup ", what)));
  }
  if (what != "create" && context.settings.Chosen("keep")) {
    return context.console.Fail(UsageFailure("--keep belongs to nightshift backup create", ""));
  }
  if (what == "create") return Create(context);
  if (what == "list") return List(context);
  return Restore(context, words.size() > 1 ? words[1] : "");
}

}  // namespace nightshift
