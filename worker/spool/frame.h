// The bytes of a spool file: frames that a crash may tear at the end and a bad disk may damage
// anywhere, without any other frame becoming unreadable.
//
//   file  := frame*
//   frame := "nsF1", size of body (4 bytes), checksum (8), number (8), body
//   body  := kind (1), length of store (1), store, payload
//
// Numbers are little-endian. The checksum is xxh3_64 of number and body, seeded with the size.
// After bytes that are no frame, reading goes on at the next mark whose checksum holds. An answer
// can contain anything, a forged frame too, but not the id of the store, which backends never see.
#ifndef NIGHTSHIFT_WORKER_SPOOL_FRAME_H_
#define NIGHTSHIFT_WORKER_SPOOL_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nightshift/v1/worker.pb.h"

namespace nightshift {

struct Frame {
  enum class Kind : uint8_t {
    kResult = 1,  // payload: an AttemptResult
    kForgot = 2,  // payload: the numbers, 8 bytes each, of results that are needed no more
  };
  Kind kind = Kind::kResult;
  uint64_t number = 0;  // of a result
  absl::string_view store;
  absl::string_view payload;
};

void AppendResult(uint64_t number, absl::string_view store, const v1::AttemptResult& result,
                  std::string* out);
void AppendForgot(absl::string_view store, absl::Span<const uint64_t> numbers, std::string* out);
// Of a kForgot frame.
void ForEachForgotten(const Frame& frame, absl::FunctionRef<void(uint64_t)> visit);

struct ScanReport {
  int64_t frames = 0;
  int64_t damaged_places = 0;  // runs of bytes that are no frame and not a torn end
  int64_t damaged_bytes = 0;
  int64_t torn_bytes = 0;  // at the end: a frame that was being written, or zeros
  bool gave_up = false;    // too much to hash among damaged bytes: the rest was not looked at
};

// Visits every whole frame, in order. The views point into `bytes`.
ScanReport ScanFrames(absl::string_view bytes, absl::FunctionRef<void(const Frame&)> visit);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_SPOOL_FRAME_H_
