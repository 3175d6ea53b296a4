// The part of a body that a Range header asks for (RFC 9110, section 14): one range of bytes.
//
// Pure functions; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BYTE_RANGE_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BYTE_RANGE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace nightshift {

struct ByteRange {
  enum class Kind {
    kWhole,          // no header, or one that is to be ignored: malformed, or several ranges
    kPart,           // `length` > 0 bytes from `offset` on
    kUnsatisfiable,  // nothing of it is there
  };
  Kind kind = Kind::kWhole;
  int64_t offset = 0;
  int64_t length = 0;
};

// `size` is the whole body's, in bytes.
ByteRange ParseByteRange(absl::string_view header, int64_t size);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BYTE_RANGE_H_
