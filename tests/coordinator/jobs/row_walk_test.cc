#include "coordinator/jobs/row_walk.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/random.h"
#include "nightshift/v1/record.pb.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr JobNumber kJob = 4;

std::string RandomText(Random& random, uint64_t bytes_max) {
  std::string text(random.Below(bytes_max + 1), '\0');
  for (char& c : text) c = static_cast<char>(' ' + random.Below(90));
  return text;
}

// The reading by hand must see what protobuf sees, whatever is left out.
TEST(RequestHeadTest, IsWhatProtobufReads) {
  Random random(1);
  const std::string key = RequestRowKey(kJob, 1);
  for (int i = 0; i < 500; ++i) {
    v1::RequestRecord row;
    row.set_custom_id(RandomText(random, 20));
    row.set_endpoint(static_cast<v1::Endpoint>(random.Below(9)));
    row.set_body(RandomText(random, 300));
    row.set_line(static_cast<int64_t>(random.Below(1u << 31)));
    if (random.Chance(0.3)) row.set_invalid_reason(RandomText(random, 30));
    const std::string value = EncodeRecord(key, row);
    const absl::StatusOr<RequestHead> head = ReadRequestHead(key, value);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(std::string(head->custom_id), row.custom_id());
    EXPECT_EQ(std::string(head->invalid_reason), row.invalid_reason());
    EXPECT_EQ(head->endpoint, static_cast<uint64_t>(row.endpoint()));
    EXPECT_EQ(head->body_bytes, row.body().size());
  }
}

// Behind a right checksum, too, a length may be wrong; it must not be believed.
TEST(RequestHeadTest, NonsenseIsDataLoss) {
  Random random(2);
  const std::string key = RequestRowKey(kJob, 1);
  v1::RequestRecord row;
  row.set_custom_id("custom");
  row.set_body("{\"a\":1}");
  const std::string good = row.SerializeAsString();
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string payload = good.substr(0, random.Below(good.size() + 1));
    for (char& c : payload) {
      if (random.Chance(0.2)) c = static_cast<char>(random.Below(256));
    }
    const std::string value = EncodeBytes(key, payload);
    const absl::StatusOr<RequestHead> head = ReadRequestHead(key, value);
    if (head.ok()) {
      EXPECT_LE(head->custom_id.size() + head->body_bytes, payload.size());
    } else {
      EXPECT_EQ(head.status().code(), absl::StatusCode::kDataLoss);
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(RowWalkTest, FindsByStepAndBySeek) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  WriteSet writes;
  for (const uint64_t index : {0, 1, 2, 5, 90, 91, 300}) {
    writes.Put(Family::kOutcomes, RequestRowKey(kJob, index), "");
  }
  writes.Put(Family::kOutcomes, RequestRowKey(kJob + 1, 0), "");
  ASSERT_TRUE(store->Commit(std::move(writes)).ok());
  RowWalk walk(*store, Family::kOutcomes, kJob, 0, UINT64_MAX, 0);
  EXPECT_TRUE(walk.Find(0));
  EXPECT_TRUE(walk.Find(0));
  EXPECT_TRUE(walk.Find(2));
  EXPECT_FALSE(walk.Find(3));
  EXPECT_EQ(walk.index(), 5u);
  EXPECT_FALSE(walk.Find(4));
  EXPECT_TRUE(walk.Find(5));
  EXPECT_TRUE(walk.Find(300));
  EXPECT_FALSE(walk.Find(301));
  EXPECT_FALSE(walk.Valid());
  EXPECT_TRUE(walk.status().ok());
  RowWalk bounded(*store, Family::kOutcomes, kJob, 3, 91, 0);
  EXPECT_TRUE(bounded.Valid());
  EXPECT_EQ(bounded.index(), 5u);
  EXPECT_TRUE(bounded.Find(90));
  EXPECT_FALSE(bounded.Find(91));
}

}  // namespace
}  // namespace nightshift
