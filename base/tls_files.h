// The files that TLS needs, as the operator names them: PEM, read again when they change.
#ifndef NIGHTSHIFT_BASE_TLS_FILES_H_
#define NIGHTSHIFT_BASE_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"

namespace nightshift {

struct TlsFiles {
  std::string cert;  // chain, the own certificate first
  std::string key;
  std::string ca;  // certificates that the other side's must be signed by

  bool has_identity() const { return !cert.empty() && !key.empty(); }
};

// InvalidArgument, naming the file and what is wrong with it, unless each file that is named can be
// used and the key is that of the certificate. Reads the disk.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_TLS_FILES_H_
