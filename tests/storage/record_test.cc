#include "storage/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nightshift/v1/record.pb.h"
#include "storage/keys.h"

namespace nightshift {
namespace {

using testing::HasSubstr;

v1::RequestRecord SomeRecord() {
  v1::RequestRecord record;
  record.set_custom_id("row-17");
  record.set_body("{\"model\":\"m\"}");
  record.set_line(18);
  return record;
}

TEST(RecordTest, MessageComesBack) {
  const std::string key = RequestRowKey(1, 17);
  v1::RequestRecord read;
  ASSERT_TRUE(DecodeRecord(key, EncodeRecord(key, SomeRecord()), &read).ok());
  EXPECT_EQ(read.SerializeAsString(), SomeRecord().SerializeAsString());
}

TEST(RecordTest, EmptyMessageAndBytesComeBack) {
  v1::RequestRecord read = SomeRecord();
  ASSERT_TRUE(DecodeRecord("k", EncodeRecord("k", v1::RequestRecord()), &read).ok());
  EXPECT_EQ(read.SerializeAsString(), "");
  const std::string value = EncodeBytes("k", "");
  const absl::StatusOr<absl::string_view> bytes = DecodeBytes("k", value);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, "");
}

TEST(RecordTest, BytesComeBackUnchanged) {
  const std::string answer("{\"a\":1e3}\0\xff\n", 12);
  const std::string value = EncodeBytes("key", answer);
  const absl::StatusOr<absl::string_view> bytes = DecodeBytes("key", value);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, answer);
  EXPECT_EQ(bytes->data(), value.data() + 8) << "must be a view, not a copy";
}

// The layout is on disk.
TEST(RecordTest, LayoutIsFixed) {
  EXPECT_EQ(EncodeBytes("key", "payload"),
            std::string("\xff\x23\x7c\xc3\x1b\x69\xe5\x40", 8) + "payload");
}

TEST(RecordTest, EveryFlippedBitIsNoticed) {
  const std::string key = RequestRowKey(1, 2);
  const std::string value = EncodeRecord(key, SomeRecord());
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    std::string damaged = value;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    v1::RequestRecord read;
    EXPECT_TRUE(absl::IsDataLoss(DecodeRecord(key, damaged, &read))) << bit;
  }
}

TEST(RecordTest, EveryTruncationIsNoticed) {
  const std::string value = EncodeRecord("key", SomeRecord());
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeBytes("key", value.substr(0, size)).status())) << size;
  }
}

TEST(RecordTest, ValueUnderAnotherKeyIsNoticed) {
  const std::string value = EncodeRecord(RequestRowKey(1, 2), SomeRecord());
  v1::RequestRecord read;
  const absl::Status status = DecodeRecord(RequestRowKey(1, 3), value, &read);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("00000000000000010000000000000003"));
}

TEST(RecordTest, WholeFrameAroundNoMessageIsNoticed) {
  v1::RequestRecord read;
  EXPECT_TRUE(absl::IsDataLoss(DecodeRecord("k", EncodeBytes("k", "\x0a\xff"), &read)));
}

}  // namespace
}  // namespace nightshift
