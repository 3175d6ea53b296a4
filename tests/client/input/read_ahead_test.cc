#include "client/input/read_ahead.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

// `count` requests with bodies of `body_bytes`, then `end`.
class CountingReader final : public InputReader {
 public:
  CountingReader(int64_t count, size_t body_bytes, absl::Status end)
      : count_(count), body_(body_bytes, 'x'), end_(std::move(end)) {}

  absl::StatusOr<bool> Next(InputItem* item) override {
    if (stats_.requests == count_) {
      if (!end_.ok()) return end_;
      return false;
    }
    item->good = true;
    item->line = ++stats_.requests;
    item->request.custom_id = absl::StrCat("r-", item->line);
    item->request.body = body_;
    return true;
  }
  const InputStats& stats() const override { return stats_; }
  InputFormat format() const override { return InputFormat::kText; }
  char delimiter() const override { return 0; }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::string ContentHash() const override { return ""; }
  std::vector<std::string> Warnings() const override { return {}; }

 private:
  const int64_t count_;
  const std::string body_;
  const absl::Status end_;
  InputStats stats_;
  std::vector<std::string> columns_;
};

TEST(ReadAheadTest, GivesAllInOrderThenTheEnd) {
  constexpr int64_t kCount = 20 * kBatchItemsMax + 7;
  ReadAhead input(std::make_unique<CountingReader>(kCount, 3, absl::OkStatus()));
  int64_t seen = 0;
  while (true) {
    const auto batch = input.Next();
    ASSERT_TRUE(batch.ok());
    if (batch->empty()) break;
    EXPECT_LE(batch->size(), kBatchItemsMax);
    for (const InputItem& item : *batch) ASSERT_EQ(item.line, ++seen);
  }
  EXPECT_EQ(seen, kCount);
  EXPECT_EQ(input.reader().stats().requests, kCount);
  const auto again = input.Next();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->empty());
}

TEST(ReadAheadTest, LargeBodiesMakeSmallBatches) {
  ReadAhead input(std::make_unique<CountingReader>(10, kBatchBytesMax / 2, absl::OkStatus()));
  const auto batch = input.Next();
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->size(), 2u);
}

TEST(ReadAheadTest, ErrorComesAfterWhatWasReadBefore) {
  ReadAhead input(std::make_unique<CountingReader>(5, 3, absl::DataLossError("cut off")));
  const auto batch = input.Next();
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->size(), 5u);
  EXPECT_TRUE(absl::IsDataLoss(input.Next().status()));
}

// More than fits ahead: the reading thread waits for room that never comes.
TEST(ReadAheadTest, GoesWhileTheReaderHasMore) {
  constexpr int64_t kCount = 10 * (kReadAheadBatches + 1) * kBatchItemsMax;
  ReadAhead input(std::make_unique<CountingReader>(kCount, 3, absl::OkStatus()));
  ASSERT_TRUE(input.Next().ok());
}

}  // namespace
}  // namespace nightshift
