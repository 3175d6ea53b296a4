// token create, list and revoke: work on the file that the coordinator reads, and ask no
// coordinator.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/token_file.h"
#include "client/cli/shell_quote.h"
#include "client/commands/command.h"
#include "client/commands/job_text.h"
#include "client/output/atomic_file.h"
#include "client/output/text_table.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr mode_t kMode = 0600;

// Held while the file is read, changed and written: of two that do so at once none is lost.
class FolderOfFileLock {
 public:
  explicit FolderOfFileLock(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Without a lock it is done all the same: where the folder is missing the write says so.
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  ~FolderOfFileLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderOfFileLock(const FolderOfFileLock&) = delete;
  FolderOfFileLock& operator=(const FolderOfFileLock&) = delete;

 private:
  int fd_;
};

absl::StatusOr<std::vector<TokenEntry>> Read(const std::string& path, bool may_be_absent) {
  std::ifstream in(path);
  if (!in && may_be_absent && access(path.c_str(), F_OK) != 0) return std::vector<TokenEntry>();
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in) return absl::InvalidArgumentError(absl::StrCat(path, " cannot be read"));
  if (!IsTokenTable(text.str())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no tokens of `nightshift token`, but something else"));
  }
  const absl::StatusOr<std::vector<TokenEntry>> entries = ParseTokenTable(text.str());
  if (!entries.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", entries.status().message()));
  }
  return entries;
}

// The file keeps its owner and its mode, so that the coordinator's user can go on reading it.
absl::Status Write(const std::string& path, const std::vector<TokenEntry>& entries) {
  struct stat before;
  const bool existed = stat(path.c_str(), &before) == 0;
  const mode_t mask = umask(static_cast<mode_t>(~kMode & 0777));
  absl::StatusOr<std::unique_ptr<AtomicFile>> file = AtomicFile::Create(path);
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->Append(PrintTokenTable(entries));
  if (status.ok()) status = (*file)->Commit();
  umask(mask);
  RETURN_IF_ERROR(status);
  if (existed) (void)!chown(path.c_str(), before.st_uid, before.st_gid);
  return absl::OkStatus();
}

Failure FileFailure(const absl::Status& status) {
  Failure failure = UsageFailure(std::string(status.message()),
                                 "--token-file names the file that the coordinator reads");
  failure.code = "token_file";
  return failure;
}

std::string TenantText(const TokenEntry& entry) {
  return entry.tenant.empty() ? "none" : (entry.tenant == kAllTenants ? "all" : entry.tenant);
}

Json EntryJson(const TokenEntry& entry) {
  Json json;
  json["id"] = entry.id;
  json["role"] = std::string(RoleWord(entry.role));
  json["tenant"] = entry.tenant.empty() ? Json() : Json(entry.tenant);
  json["name"] = entry.name.empty() ? Json() : Json(entry.name);
  json["created_at"] = entry.created_at_s;
  return json;
}

int Create(CommandContext& context, const std::string& path) {
  const Settings& settings = context.settings;
  const std::string role_word = settings.Text("role");
  const std::optional<Role> role = ParseRole(role_word);
  const std::string tenant = settings.Text("tenant");
  if (!tenant.empty() && tenant != kAllTenants && !IsTenantName(tenant)) {
    return context.console.Fail(UsageFailure(
        absl::StrCat("--tenant: \"", tenant, "\" is no name of letters, digits, '.', '_' and '-'"),
        "--tenant '*' makes a token that sees all tenants"));
  }
  const FolderOfFileLock lock(path);
  absl::StatusOr<std::vector<TokenEntry>> entries = Read(path, /*may_be_absent=*/true);
  if (!entries.ok()) return context.console.Fail(FileFailure(entries.status()));
  const NewToken made =
      MakeToken(*role, tenant, settings.Text("name"), absl::ToUnixSeconds(absl::Now()));
  entries->push_back(made.entry);
  if (const absl::Status written = Write(path, *entries); !written.ok()) {
    return context.console.Fail(FileFailure(written));
  }
  if (context.console.json()) {
    Json document = EntryJson(made.entry);
    document["token"] = made.token;
    context.console.Out(Dump(document) + "\n");
    return 0;
  }
  context.console.Out(made.token + "\n");
  context.console.Note(absl::StrCat("Token ", made.entry.id, " of the role ", role_word,
                                    ", tenant ", TenantText(made.entry),
                                    ". It is shown this once: keep it in a file that only its user "
                                    "can read.\nA coordinator that runs with --token-file ",
                                    ShellQuote(path), " takes it within a second.\n"));
  return 0;
}

int List(CommandContext& context, const std::string& path) {
  const absl::StatusOr<std::vector<TokenEntry>> entries = Read(path, /*may_be_absent=*/false);
  if (!entries.ok()) return context.console.Fail(FileFailure(entries.status()));
  if (context.console.json()) {
    Json document = Json::array();
    for (const TokenEntry& entry : *entries) document.push_back(EntryJson(entry));
    context.console.Out(Dump(document) + "\n");
    return 0;
  }
  if (entries->empty()) {
    context.console.Out(absl::StrCat("No tokens in ", path, ": nobody is let in.\n"));
    return 0;
  }
  TextTable table({{"TOKEN"}, {"ROLE"}, {"TENANT"}, {"MADE"}, {"NAME"}});
  for (const TokenEntry& entry : *entries) {
    table.AddRow({entry.id, std::string(RoleWord(entry.role)), TenantText(entry),
                  ClockText(absl::FromUnixSeconds(entry.created_at_s), absl::Now()), entry.name});
  }
  context.console.Out(table.Render());
  return 0;
}

int Revoke(CommandContext& context, const std::string& path, const std::string& id) {
  const FolderOfFileLock lock(path);
  absl::StatusOr<std::vector<TokenEntry>> entries = Read(path, /*may_be_absent=*/false);
  if (!entries.ok()) return context.console.Fail(FileFailure(entries.status()));
  const size_t gone = std::erase_if(*entries, [&](const TokenEntry& e) { return e.id == id; });
  if (gone == 0) {
    Failure failure = UsageFailure(
        absl::StrCat("there is no token \"", id, "\" in ", path),
        absl::StrCat("nightshift token list --token-file ", ShellQuote(path), " shows them"));
    failure.code = "unknown_token";
    return context.console.Fail(failure);
  }
  if (const absl::Status written = Write(path, *entries); !written.ok()) {
    return context.console.Fail(FileFailure(written));
  }
  context.console.Note(absl::StrCat(
      "Token ", id, " is revoked: a coordinator that runs refuses it within a second.\n"));
  if (context.console.json()) context.console.Out(Dump(Json{{"revoked", id}}) + "\n");
  return 0;
}

}  // namespace

int TokenCommand(CommandContext& context) {
  const std::string what(context.argument());
  const auto& words = context.invocation.positionals;
  const size_t words_wanted = what == "revoke" ? 2 : 1;
  if (words.size() != words_wanted) {
    return context.console.Fail(UsageFailure(
        words.size() > words_wanted
            ? absl::StrCat("\"", words[words_wanted], "\" is one word too many")
            : std::string("which token? give its id, as the list shows it"),
        absl::StrCat("usage: nightshift token ", what, what == "revoke" ? " ID" : "")));
  }
  for (const char* flag : {"role", "tenant", "name"}) {
    if (what != "create" && context.settings.Chosen(flag)) {
      return context.console.Fail(
          UsageFailure(absl::StrCat("--", flag, " belongs to nightshift token create"), ""));
    }
  }
  if (!context.settings.Has("token-file")) {
    return context.console.Fail(
        UsageFailure("which file? --token-file FILE, the one that the coordinator reads"));
  }
  const std::string path = context.settings.Text("token-file");
  if (what == "create") return Create(context, path);
  if (what == "list") return List(context, path);
  return Revoke(context, path, words[1]);
}

}  // namespace nightshift
