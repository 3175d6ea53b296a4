// Whether a chunked body is one, byte by byte as it is read: the HTTP library takes the first part
// for the whole when a chunk does not end where it should, what follows for the next request, and
// lengths that other programs read differently.
//
//   body := (size [";" anything] CRLF data CRLF)* "0" [";" anything] CRLF CRLF
//
// Used by one thread.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_CHUNK_CHECK_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_CHUNK_CHECK_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace nightshift {

class ChunkCheck {
 public:
  // The next bytes. False when no chunked body goes on like this, or when it has ended before.
  bool Take(absl::string_view bytes);

 private:
  enum class Part {
    kSize,
    kPadding,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kLastCr,
    kLastLf,
    kEnd
  };

  // False when `c` is not what may come here; not within data.
  bool Step(char c);
  bool Expect(bool found, Part next);

  Part part_ = Part::kSize;
  int digits_ = 0;
  uint64_t left_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_CHUNK_CHECK_H_
