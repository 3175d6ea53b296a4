// A request and its reply as the API sees them, free of the HTTP library: what the routes are
// written against, and what their tests can make by hand.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_HTTP_MESSAGE_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_HTTP_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/access/access.h"

namespace nightshift {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

// The body of a request on its way in. Not thread-safe.
class HttpBody {
 public:
  virtual ~HttpBody() = default;

  // Hands the bytes to `take` as they arrive and returns when the last one has been taken, or the
  // first error: `take`'s own, InvalidArgument when the body is cut off or badly framed,
  // OutOfRange when it is longer than `bytes_max`. Once.
  virtual absl::Status Read(int64_t bytes_max,
                            absl::FunctionRef<absl::Status(absl::string_view)> take) = 0;
};

struct HttpRequest {
  std::string method;        // "GET", "POST", …; a HEAD arrives as GET, and only the head is sent
  std::string path;          // decoded, without the query; at most kHttpPathBytesMax
  HttpFields query;          // decoded
  HttpFields headers;        // as sent; look with Header()
  HttpBody* body = nullptr;  // never null
  // Who sends it, as the gate found.
  Caller caller;
  // Every other connection is taken: to be answered only what a supervisor needs.
  bool crowded = false;

  // The first value, or nullptr. Names of headers in any case.
  const std::string* Header(absl::string_view name) const;
  const std::string* Query(absl::string_view name) const;
};

// A longer path names nothing here and is answered with 404.
inline constexpr size_t kHttpPathBytesMax = 512;

// The body of a reply that is too long to be held. Used by one thread.
class HttpSource {
 public:
  virtual ~HttpSource() = default;
  // The next bytes, at least one, or nothing at the end. An error cuts the connection, so that the
  // client does not take half for the whole. The view lives until the next call.
  virtual absl::StatusOr<absl::string_view> Next() = 0;
  // Of a source without a known length: nothing just now is not the end.
  virtual bool MoreToCome() const { return false; }
};

struct HttpReply {
  int status = 200;
  HttpFields headers;
  std::string content_type = "application/json";
  std::string body;
  // Instead of `body`: exactly `source_bytes` bytes; less is an error of the source. With
  // kUnknownBytes as many as come, sent in chunks.
  static constexpr int64_t kUnknownBytes = -1;
  std::shared_ptr<HttpSource> source;
  int64_t source_bytes = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_HTTP_MESSAGE_H_
