#include "coordinator/http/byte_range.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

using Kind = ByteRange::Kind;

void Expect(absl::string_view header, int64_t size, Kind kind, int64_t offset, int64_t length) {
  const ByteRange range = ParseByteRange(header, size);
  EXPECT_EQ(range.kind, kind) << header;
  if (kind == Kind::kUnsatisfiable) return;
  EXPECT_EQ(range.offset, offset) << header;
  EXPECT_EQ(range.length, length) << header;
}

TEST(ByteRangeTest, PartsLieWithinTheBody) {
  Expect("bytes=0-0", 100, Kind::kPart, 0, 1);
  Expect("bytes=10-19", 100, Kind::kPart, 10, 10);
  Expect("bytes=90-", 100, Kind::kPart, 90, 10);
  Expect("bytes=90-1000", 100, Kind::kPart, 90, 10);
  Expect("bytes=-10", 100, Kind::kPart, 90, 10);
  Expect("bytes=-1000", 100, Kind::kPart, 0, 100);
  Expect("bytes=0-9223372036854775807", 100, Kind::kPart, 0, 100);
}

TEST(ByteRangeTest, WhatIsNotThereIsSaidToBeNot) {
  Expect("bytes=100-", 100, Kind::kUnsatisfiable, 0, 0);
  Expect("bytes=-0", 100, Kind::kUnsatisfiable, 0, 0);
  Expect("bytes=0-0", 0, Kind::kUnsatisfiable, 0, 0);
}

TEST(ByteRangeTest, WhatIsNoRangeIsIgnored) {
  for (const char* header :
       {"", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "bytes=a-b", "bytes=+1-2",
        "bytes=1--2", "lines=0-1", "bytes=99999999999999999999-"}) {
    Expect(header, 100, Kind::kWhole, 0, 100);
  }
}

}  // namespace
}  // namespace nightshift
