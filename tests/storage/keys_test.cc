#include "storage/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace nightshift {
namespace {

// The bytes are on disk: this fails when somebody changes them without an upgrade.
TEST(KeysTest, BytesAreBigEndianAndFixed) {
  EXPECT_EQ(JobKey(0x0102030405060708), "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(RequestRowKey(1, 0xff00), std::string("\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\xff\0", 16));
  EXPECT_EQ(ProgressKey(1, 2, 3),
            std::string("\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03", 20));
  EXPECT_EQ(EventKey(7, 9), RequestRowKey(7, 9));
}

TEST(KeysTest, KeysComeBackAsTheirNumbers) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{255}, uint64_t{256},
                                uint64_t{0x8000000000000000}, UINT64_MAX}) {
    EXPECT_EQ(ParseJobKey(JobKey(number)), number);
    const auto request = ParseRequestRowKey(RequestRowKey(number, ~number));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->job, number);
    EXPECT_EQ(request->index, ~number);
    const auto progress = ParseProgressKey(ProgressKey(number, UINT32_MAX, ~number));
    ASSERT_TRUE(progress.has_value());
    EXPECT_EQ(progress->job, number);
    EXPECT_EQ(progress->chunk, UINT32_MAX);
    EXPECT_EQ(progress->commit, ~number);
  }
}

TEST(KeysTest, OtherLengthsAreRefused) {
  const std::string bytes(64, 'x');
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::string_view key(bytes.data(), size);
    EXPECT_EQ(ParseJobKey(key).has_value(), size == 8) << size;
    EXPECT_EQ(ParseRequestRowKey(key).has_value(), size == 16) << size;
    EXPECT_EQ(ParseProgressKey(key).has_value(), size == 20) << size;
  }
}

// Scans meet rows in the order of the numbers: job first, then index, chunk, commit.
TEST(KeysTest, OrderOfBytesIsOrderOfNumbers) {
  Random random(20260101);
  for (int i = 0; i < 2000; ++i) {
    // Few distinct high bytes, so that every position decides sometimes.
    const auto number = [&] { return random.Next() >> (8 * random.Below(8)); };
    const uint64_t a1 = random.Below(3), b1 = random.Below(3);
    const uint64_t a2 = number(), b2 = number();
    EXPECT_EQ(RequestRowKey(a1, a2) < RequestRowKey(b1, b2),
              std::make_pair(a1, a2) < std::make_pair(b1, b2));
    const auto a3 = static_cast<uint32_t>(random.Below(3));
    const auto b3 = static_cast<uint32_t>(random.Below(3));
    EXPECT_EQ(ProgressKey(a1, a3, a2) < ProgressKey(b1, b3, b2),
              std::make_tuple(a1, a3, a2) < std::make_tuple(b1, b3, b2));
  }
}

TEST(KeysTest, RowsOfAJobLieBetweenItsKeyAndTheNext) {
  for (const std::string& key : {RequestRowKey(5, 0), RequestRowKey(5, UINT64_MAX),
                                 ProgressKey(5, UINT32_MAX, UINT64_MAX), EventKey(5, 1)}) {
    EXPECT_GE(key, JobKey(5));
    EXPECT_LT(key, JobKey(6));
  }
}

}  // namespace
}  // namespace nightshift
