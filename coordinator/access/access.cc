#include "coordinator/access/access.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/constant_time.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);
// A tenant that has been quiet may make so many seconds' worth of calls at once.
constexpr double kBurstSeconds = 2;
// Sums of parts of a call, which must come to a whole one in the time that was told.
constexpr double kRounding = 1e-6;
constexpr char kRetryAfterPayload[] = "nightshift/tenant-retry-after";

}  // namespace

bool Caller::May(Role needed) const {
  if (role == Role::kAdmin) return true;
  if (needed == Role::kWorker || role == Role::kWorker) return role == needed;
  return static_cast<int>(role) >= static_cast<int>(needed);
}

absl::Status TenantLimitError(absl::string_view what, absl::Duration retry_after) {
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(retry_after, absl::Seconds(1)));
  absl::Status status =
      absl::ResourceExhaustedError(retry_after == absl::InfiniteDuration()
                                       ? absl::StrCat(kTenantLimitPrefix, what)
                                       : absl::StrCat(kTenantLimitPrefix, what, " Try again in ",
                                                      std::max<int64_t>(seconds, 1), " s."));
  status.SetPayload(kRetryAfterPayload, absl::Cord(absl::FormatDuration(retry_after)));
  return status;
}

std::optional<absl::Duration> TenantRetryAfter(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryAfterPayload);
  absl::Duration after;
  if (!payload.has_value() || !absl::ParseDuration(std::string(*payload), &after)) {
    return std::nullopt;
  }
  return after;
}

Access::Access(AccessOptions options, Clock& clock)
    : options_(std::move(options)), clock_(clock), tokens_(std::make_shared<Tokens>()) {}

absl::StatusOr<std::unique_ptr<Access>> Access::Create(AccessOptions options, Clock& clock) {
  std::unique_ptr<Access> access(new Access(std::move(options), clock));
  if (!access->asks_for_tokens()) return access;
  // Looked at first: what changes in between is read once more.
  ASSIGN_OR_RETURN(const FileSign sign, access->Look());
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokens> tokens, access->Read());
  access->next_look_ns_ = (clock.Now() + kLookInterval).nanos;
  {
    MutexLock lock(&access->reload_mutex_);
    access->sign_ = sign;
  }
  MutexLock lock(&access->mutex_);
  access->tokens_ = std::move(tokens);
  return access;
}

absl::StatusOr<Access::FileSign> Access::Look() const {
  struct stat info;
  if (stat(options_.token_file.c_str(), &info) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token file ", options_.token_file, ": ", std::strerror(errno)));
  }
  return FileSign{info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec, info.st_size,
                  info.st_ino};
}

absl::StatusOr<std::shared_ptr<const Access::Tokens>> Access::Read() const {
  std::ifstream in(options_.token_file);
  std::stringstream stream;
  if (in) stream << in.rdbuf();
  const std::string text = stream.str();
  auto tokens = std::make_shared<Tokens>();
  absl::Status problem;
  if (!in) {
    problem = absl::InvalidArgumentError("it cannot be read");
  } else if (IsTokenTable(text)) {
    absl::StatusOr<std::vector<TokenEntry>> entries = ParseTokenTable(text);
    if (entries.ok()) {
      tokens->entries = *std::move(entries);
    } else {
      problem = entries.status();
    }
  } else {
    tokens->clear = std::string(absl::StripAsciiWhitespace(text));
    if (tokens->clear.empty()) problem = absl::InvalidArgumentError("it is empty");
  }
  if (!problem.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token file ", options_.token_file, ": ", problem.message()));
  }
  return std::shared_ptr<const Tokens>(std::move(tokens));
}

void Access::ReloadIfDue() const {
  const MonotonicTime now = clock_.Now();
  int64_t due = next_look_ns_;
  if (now.nanos < due) return;
  if (!next_look_ns_.compare_exchange_strong(due, (now + kLookInterval).nanos)) return;
  MutexLock reload_lock(&reload_mutex_);
  const absl::StatusOr<FileSign> sign = Look();
  if (sign.ok() && *sign == sign_) return;
  absl::Status problem = sign.status();
  if (problem.ok()) {
    absl::StatusOr<std::shared_ptr<const Tokens>> tokens = Read();
    problem = tokens.status();
    if (tokens.ok()) {
      // Not before: a file that only becomes readable keeps its sign.
      sign_ = *sign;
      MutexLock lock(&mutex_);
      tokens_ = *std::move(tokens);
    }
  }
  if (problem.ok()) {
    LogInfo("the token file ", options_.token_file, " was read again");
    problem_told_.clear();
  } else if (problem.message() != problem_told_) {
    problem_told_ = std::string(problem.message());
    LogError(problem_told_, "; the tokens that were in force still are");
  }
}

absl::StatusOr<Caller> Access::Admit(absl::string_view token) const {
  if (!asks_for_tokens()) return Caller();
  ReloadIfDue();
  std::shared_ptr<const Tokens> tokens;
  {
    MutexLock lock(&mutex_);
    tokens = tokens_;
  }
  if (token.empty()) {
    return absl::UnauthenticatedError(
        "this coordinator asks for a token: --token-file FILE shows one; over HTTP it is sent as "
        "'Authorization: Bearer TOKEN', which is what clients make of their API key");
  }
  if (!tokens->clear.empty()) {
    if (EqualInConstantTime(token, tokens->clear)) return Caller();
  } else if (const TokenEntry* const entry = FindToken(tokens->entries, token); entry != nullptr) {
    Caller caller;
    caller.role = entry->role;
    caller.all_tenants = entry->role == Role::kAdmin || entry->tenant == kAllTenants;
    caller.tenant = entry->tenant == kAllTenants ? "" : entry->tenant;
    return caller;
  }
  return absl::UnauthenticatedError(
      "the token (API key) is none that this coordinator lets in, or it has been revoked");
}

absl::Status Access::CheckOpenJobs(const Caller& caller, int64_t open,
                                   absl::Duration first_end) const {
  if (!limits_open_jobs(caller) || open < options_.limits.open_jobs) return absl::OkStatus();
  return TenantLimitError(absl::StrCat("it has ", open, " jobs that have not ended; ",
                                       options_.limits.open_jobs, " are allowed at a time."),
                          first_end);
}

absl::Duration Access::Throttle(const Caller& caller) const {
  const double rate = options_.limits.requests_per_second;
  if (rate <= 0 || caller.all_tenants || caller.role == Role::kWorker) return absl::ZeroDuration();
  // At least one whole call, however low the rate.
  const double full = std::max(1.0, rate * kBurstSeconds);
  const MonotonicTime now = clock_.Now();
  MutexLock lock(&mutex_);
  // As many as there are tenants in the token file, about.
  Bucket& bucket = buckets_.try_emplace(caller.tenant, Bucket{full, now}).first->second;
  bucket.calls = std::min(full, bucket.calls + rate * absl::ToDoubleSeconds(now - bucket.at));
  bucket.at = now;
  if (bucket.calls >= 1 - kRounding) {
    bucket.calls -= 1;
    return absl::ZeroDuration();
  }
  return absl::Seconds((1 - bucket.calls) / rate);
}

}  // namespace nightshift
