#include "coordinator/http/tls_identity.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<TlsIdentity>> TlsIdentity::Create(const TlsFiles& files,
                                                                 Clock& clock) {
  std::unique_ptr<TlsIdentity> identity(new TlsIdentity(files, clock));
  MutexLock lock(&identity->mutex_);
  identity->sign_ = identity->Look();
  ASSIGN_OR_RETURN(identity->current_, identity->Read());
  identity->next_look_ = clock.Now() + kLookInterval;
  return identity;
}

std::string TlsIdentity::Look() const {
  std::string sign;
  for (const std::string& path : {files_.cert, files_.key}) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) info = {};
    absl::StrAppend(&sign, info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec, ".",
                    info.st_mtim.tv_nsec, " ");
  }
  return sign;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> TlsIdentity::Read() const {
  RETURN_IF_ERROR(CheckTlsFiles(files_));
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  const bool good =
      SSL_CTX_use_certificate_chain_file(context.get(), files_.cert.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), files_.key.c_str(), SSL_FILETYPE_PEM) == 1;
  ERR_clear_error();
  // They were good a moment ago.
  if (!good) return absl::InvalidArgumentError(absl::StrCat(files_.cert, " changes right now"));
  return context;
}

std::shared_ptr<SSL_CTX> TlsIdentity::Current() {
  MutexLock lock(&mutex_);
  if (clock_.Now() < next_look_) return current_;
  next_look_ = clock_.Now() + kLookInterval;
  std::string sign = Look();
  if (sign == sign_) return current_;
  sign_ = std::move(sign);
  absl::StatusOr<std::shared_ptr<SSL_CTX>> next = Read();
  if (next.ok()) {
    current_ = *std::move(next);
    LogInfo("the certificate ", files_.cert, " was read again");
  } else {
    LogError("the certificate that was in force still is: ", next.status().message());
  }
  return current_;
}

}  // namespace nightshift
