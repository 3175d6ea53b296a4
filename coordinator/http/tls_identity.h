// The certificate that the HTTP server shows, read again when its files change: a renewed one
// counts for connections from then on, and one that cannot be used leaves the last good one in
// force.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_TLS_IDENTITY_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_TLS_IDENTITY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/tls_files.h"

// Of OpenSSL.
typedef struct ssl_ctx_st SSL_CTX;

namespace nightshift {

class TlsIdentity {
 public:
  // InvalidArgument when the files cannot be used. The clock must outlive it.
  static absl::StatusOr<std::unique_ptr<TlsIdentity>> Create(const TlsFiles& files, Clock& clock);

  // For a new connection, which may go on using it when another has taken its place. Looks at the
  // files about once a second.
  std::shared_ptr<SSL_CTX> Current();

 private:
  TlsIdentity(const TlsFiles& files, Clock& clock) : files_(files), clock_(clock) {}
  // Both files: their times, sizes and numbers.
  std::string Look() const;
  absl::StatusOr<std::shared_ptr<SSL_CTX>> Read() const;

  const TlsFiles files_;
  Clock& clock_;
  Mutex mutex_;  // held while the files, a few kB, are read: a new connection may wait for that
  MonotonicTime next_look_ ABSL_GUARDED_BY(mutex_);
  std::string sign_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SSL_CTX> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_TLS_IDENTITY_H_
