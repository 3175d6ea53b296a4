#include "coordinator/jobs/seen_set.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "base/random.h"
#include "storage/keys.h"

namespace nightshift {
namespace {

constexpr int64_t kTotal = 3 * kChunkRequests + 100;

void ExpectSame(const SeenSet& a, const SeenSet& b) {
  ASSERT_EQ(a.count(), b.count());
  for (uint64_t index = 0; index < a.total(); ++index) {
    ASSERT_EQ(a.Contains(index), b.Contains(index)) << index;
  }
}

void ExpectRoundTrip(const SeenSet& seen, size_t bytes_max) {
  const std::string text = EncodeCursor({7, 3, 55}, seen);
  EXPECT_LE(text.size(), bytes_max);
  SeenSet back(static_cast<int64_t>(seen.total()));
  OutputCursor cursor;
  const absl::Status status = DecodeCursor(text, 7, &cursor, &back);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(cursor.run, 3);
  EXPECT_EQ(cursor.position, 55u);
  ExpectSame(seen, back);
}

TEST(SeenSetTest, CursorOfAReaderInOrderIsShort) {
  SeenSet seen(kTotal);
  ExpectRoundTrip(seen, 16);
  for (uint64_t index = 0; index < 2 * kChunkRequests + 7; ++index) seen.Add(index);
  EXPECT_TRUE(seen.ContainsChunk(0) && seen.ContainsChunk(1) && !seen.ContainsChunk(2));
  ExpectRoundTrip(seen, 24);
  for (uint64_t index = 2 * kChunkRequests + 7; index < seen.total(); ++index) seen.Add(index);
  ExpectRoundTrip(seen, 24);
}

TEST(SeenSetTest, CursorCarriesAnySet) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    SeenSet seen(kTotal);
    if (random.Chance(0.3)) seen.AddChunk(1);
    // From a few holes to a bitmap that no runs describe.
    const double density = random.Unit();
    const uint64_t end = random.Below(kTotal);
    for (uint64_t index = random.Below(end + 1); index < end; ++index) {
      if (!seen.Contains(index) && random.Chance(density)) seen.Add(index);
    }
    ExpectRoundTrip(seen, 4 * (kTotal / 8 + 64) / 3);
  }
}

// What people paste, and what an older or a broken client sends.
TEST(SeenSetTest, DamagedCursorIsRefusedAndHarmless) {
  Random random(4);
  SeenSet seen(kTotal);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t index = random.Below(kTotal);
    if (!seen.Contains(index)) seen.Add(index);
  }
  const std::string good = EncodeCursor({7, 1, 9}, seen);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    if (random.Chance(0.5)) text.resize(random.Below(text.size()));
    if (!text.empty()) text[random.Below(text.size())] = static_cast<char>(random.Below(128));
    SeenSet back(kTotal);
    OutputCursor cursor;
    const absl::Status status = DecodeCursor(text, 7, &cursor, &back);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      ++refused;
    }
    EXPECT_LE(back.count(), back.total());
  }
  EXPECT_GT(refused, 100);
  SeenSet other_job(kTotal);
  OutputCursor cursor;
  EXPECT_FALSE(DecodeCursor(good, 8, &cursor, &other_job).ok());
  SeenSet smaller(10);
  EXPECT_FALSE(DecodeCursor(good, 7, &cursor, &smaller).ok());
}

}  // namespace
}  // namespace nightshift
