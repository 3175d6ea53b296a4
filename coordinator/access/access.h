// Who may do what: tokens become callers, and callers are held to their tenant's limits. Shared by
// the gRPC services and the HTTP API; decides nothing about routes.
//
// The token file is looked at again about once a second; a changed one counts from then on, and one
// that has become unreadable leaves those in force that were. Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_ACCESS_ACCESS_H_
#define NIGHTSHIFT_COORDINATOR_ACCESS_ACCESS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/token_file.h"

namespace nightshift {

// Who sends a call, as far as it matters. The default may do everything: where no token is asked.
struct Caller {
  Role role = Role::kAdmin;
  std::string tenant;  // what it makes belongs to
  bool all_tenants = true;

  // Whether what belongs to that tenant exists for this caller.
  bool Sees(absl::string_view owner) const { return all_tenants || tenant == owner; }
  // Whether it may do what that role is for. A worker's token is for nothing else, and no other but
  // an admin's is for that.
  bool May(Role needed) const;
};

// Per tenant; 0: no limit. Callers that see all tenants are held to none.
struct TenantLimits {
  int64_t open_jobs = 0;
  int64_t file_bytes = 0;          // of uploaded files
  double requests_per_second = 0;  // calls over HTTP and gRPC; twice as many at once
};

// ResourceExhausted for something that a tenant has too much of; `retry_after` until that changes
// by itself, infinite when it never does.
absl::Status TenantLimitError(absl::string_view what, absl::Duration retry_after);
// Of such an error; nullopt for any other.
std::optional<absl::Duration> TenantRetryAfter(const absl::Status& status);

struct AccessOptions {
  // Of `nightshift token`, or with one token in clear, which may do everything. Empty: everybody is
  // let in and may do everything.
  std::string token_file;
  TenantLimits limits;
};

class Access {
 public:
  // InvalidArgument when the file cannot be read or makes no sense. The clock must outlive it.
  static absl::StatusOr<std::unique_ptr<Access>> Create(AccessOptions options, Clock& clock);

  // Without tokens everybody is let in.
  bool asks_for_tokens() const { return !options_.token_file.empty(); }

  // The caller with that token. Unauthenticated, with what to do about it, when it is none that
  // counts; `token` empty: none was sent.
  absl::StatusOr<Caller> Admit(absl::string_view token) const;

  // Counts a call against its tenant's rate: zero, or after how long one would be within it.
  absl::Duration Throttle(const Caller& caller) const;

  // OK when the caller's tenant, which has so many open jobs, may have one more. `first_end` is
  // when the first of them is expected to end.
  absl::Status CheckOpenJobs(const Caller& caller, int64_t open, absl::Duration first_end) const;
  // Bytes that the caller's tenant may keep in uploaded files; 0: any number.
  int64_t FileBytesMax(const Caller& caller) const {
    return caller.all_tenants ? 0 : options_.limits.file_bytes;
  }
  bool limits_open_jobs(const Caller& caller) const {
    return options_.limits.open_jobs > 0 && !caller.all_tenants;
  }

 private:
  struct Tokens {
    std::string clear;  // the one token; empty when there is a table
    std::vector<TokenEntry> entries;
  };
  struct FileSign {
    int64_t changed_ns = 0, bytes = 0;
    uint64_t inode = 0;
    friend bool operator==(const FileSign&, const FileSign&) = default;
  };
  // What of its rate a tenant has left, at that time.
  struct Bucket {
    double calls = 0;
    MonotonicTime at;
  };

  Access(AccessOptions options, Clock& clock);
  absl::StatusOr<FileSign> Look() const;
  absl::StatusOr<std::shared_ptr<const Tokens>> Read() const;
  void ReloadIfDue() const;

  const AccessOptions options_;
  Clock& clock_;
  mutable std::atomic<int64_t> next_look_ns_{0};
  mutable Mutex reload_mutex_;  // one reloads; held while the file is read, nobody waits for it
  mutable FileSign sign_ ABSL_GUARDED_BY(reload_mutex_);  // of what is in force
  mutable std::string problem_told_ ABSL_GUARDED_BY(reload_mutex_);
  mutable Mutex mutex_;
  mutable std::shared_ptr<const Tokens> tokens_ ABSL_GUARDED_BY(mutex_);
  mutable std::map<std::string, Bucket> buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_ACCESS_ACCESS_H_
