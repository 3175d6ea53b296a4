// A backend's base URL, taken apart and checked. Pure; the work is libcurl's.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_HTTP_URL_H_
#define NIGHTSHIFT_WORKER_BACKENDS_HTTP_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

struct HttpUrl {
  std::string scheme;  // "http" or "https"
  std::string host;    // "gpu7", "10.0.0.7", "[::1]"
  int port = 0;        // never 0: the scheme's own where the URL has none
  bool port_given = false;
  std::string path;       // "" or "/…", no slash at the end
  bool loopback = false;  // this machine, by name or by address

  // "host:port", or "host" where the port is the scheme's own and was not written.
  std::string Authority() const;
  // Without the path: "http://host:port".
  std::string Origin() const;
};

// InvalidArgument with one sentence for anything that is not a plain http(s) URL: another scheme,
// a user name or password in it, a query or a fragment. Never repeats what may be a secret.
absl::StatusOr<HttpUrl> ParseHttpUrl(absl::string_view text);

// `text` as one step of a path: all but letters, digits and -._~ is escaped.
std::string UrlStep(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_HTTP_URL_H_
