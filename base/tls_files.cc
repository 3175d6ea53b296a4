#include "base/tls_files.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

absl::Status Unusable(const std::string& path, const std::string& what) {
  char text[256] = "";
  const unsigned long error = ERR_get_error();  // NOLINT(google-runtime-int): the library's type
  ERR_error_string_n(error, text, sizeof text);
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, error == 0 ? "" : " (", text, error == 0 ? "" : ")"));
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.cert.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(
        "a certificate needs its key and the other way round: --tls-cert FILE and --tls-key FILE");
  }
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_method()),
                                                             SSL_CTX_free);
  if (files.has_identity()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) != 1) {
      return Unusable(files.cert, "no certificate (PEM) can be read from it");
    }
    if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return Unusable(files.key, absl::StrCat("no key (PEM, without a password) that belongs to ",
                                              files.cert, " can be read from it"));
    }
  }
  if (!files.ca.empty() &&
      SSL_CTX_load_verify_locations(context.get(), files.ca.c_str(), nullptr) != 1) {
    return Unusable(files.ca, "no certificates (PEM) can be read from it");
  }
  return absl::OkStatus();
}

}  // namespace nightshift
