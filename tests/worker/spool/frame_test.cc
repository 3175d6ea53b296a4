#include "worker/spool/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kStore[] = "0123456789abcdef";

v1::AttemptResult Result(const std::string& body) {
  v1::AttemptResult result;
  result.mutable_key()->set_job(3);
  result.mutable_key()->set_index(4);
  result.set_body(body);
  return result;
}

std::string Frames(int count, const std::string& body = "body") {
  std::string bytes;
  for (int i = 1; i <= count; ++i) {
    AppendResult(static_cast<uint64_t>(i), kStore, Result(absl::StrCat(body, i)), &bytes);
  }
  return bytes;
}

std::vector<uint64_t> Numbers(const std::string& bytes, ScanReport* report = nullptr) {
  std::vector<uint64_t> numbers;
  const ScanReport scanned =
      ScanFrames(bytes, [&](const Frame& f) { numbers.push_back(f.number); });
  if (report != nullptr) *report = scanned;
  return numbers;
}

TEST(FrameTest, ComesBackAsItWas) {
  std::string bytes;
  AppendResult(7, kStore, Result("x"), &bytes);
  AppendForgot(kStore, {5, 1ULL << 40}, &bytes);
  AppendForgot("", {}, &bytes);
  int seen = 0;
  const ScanReport report = ScanFrames(bytes, [&](const Frame& frame) {
    std::vector<uint64_t> forgotten;
    if (frame.kind == Frame::Kind::kForgot) {
      ForEachForgotten(frame, [&](uint64_t number) { forgotten.push_back(number); });
    }
    switch (seen++) {
      case 0: {
        v1::AttemptResult result;
        EXPECT_EQ(frame.kind, Frame::Kind::kResult);
        EXPECT_EQ(frame.number, 7u);
        EXPECT_EQ(std::string(frame.store), kStore);
        ASSERT_TRUE(
            result.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size())));
        EXPECT_EQ(result.SerializeAsString(), Result("x").SerializeAsString());
        break;
      }
      case 1:
        EXPECT_EQ(frame.kind, Frame::Kind::kForgot);
        EXPECT_THAT(forgotten, ElementsAre(5, 1ULL << 40));
        break;
      default:
        EXPECT_TRUE(frame.store.empty());
        EXPECT_THAT(forgotten, IsEmpty());
    }
  });
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(report.frames, 3);
  EXPECT_EQ(report.damaged_places + report.torn_bytes, 0);
}

// A crash can end the file anywhere: all whole frames are read, and it is never called damage.
TEST(FrameTest, TornAtAnyByteTheWholeFramesRemain) {
  const std::string bytes = Frames(3);
  const size_t frame = bytes.size() / 3;
  ASSERT_EQ(frame * 3, bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    ScanReport report;
    EXPECT_EQ(Numbers(bytes.substr(0, cut), &report).size(), cut / frame) << cut;
    EXPECT_EQ(report.damaged_places, 0) << cut;
    EXPECT_EQ(report.torn_bytes, static_cast<int64_t>(cut % frame)) << cut;
  }
}

TEST(FrameTest, ZerosBehindTheLastFrameAreATornEnd) {
  ScanReport report;
  EXPECT_THAT(Numbers(Frames(2) + std::string(5000, '\0'), &report), ElementsAre(1, 2));
  EXPECT_EQ(report.damaged_places, 0);
  EXPECT_EQ(report.torn_bytes, 5000);
}

// Whichever bit flips, the other frames are read and the damaged one is not.
TEST(FrameTest, AFlippedBitCostsItsFrameAndNoOther) {
  const std::string bytes = Frames(3);
  const size_t frame = bytes.size() / 3;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::vector<uint64_t> expected = {1, 2, 3};
    const size_t hit = bit / 8 / frame;
    expected.erase(expected.begin() + static_cast<int64_t>(hit));
    ScanReport report;
    ASSERT_EQ(Numbers(damaged, &report), expected) << "bit " << bit;
    // At the very end a damaged length looks like a frame that was being written.
    if (hit < 2) {
      ASSERT_EQ(report.damaged_places, 1) << "bit " << bit;
      ASSERT_EQ(report.damaged_bytes, static_cast<int64_t>(frame));
    }
    ASSERT_GT(report.damaged_bytes + report.torn_bytes, 0);
  }
}

TEST(FrameTest, MissingAndForeignBytesInTheMiddleCostNoOtherFrame) {
  const std::string bytes = Frames(3);
  const size_t frame = bytes.size() / 3;
  ScanReport report;
  EXPECT_THAT(Numbers(bytes.substr(0, frame) + "nsF1 rubbish nsF1" + bytes.substr(frame), &report),
              ElementsAre(1, 2, 3));
  EXPECT_EQ(report.damaged_places, 1);
  for (size_t missing = 1; missing < frame; ++missing) {
    EXPECT_THAT(Numbers(bytes.substr(0, frame) + bytes.substr(frame + missing)), ElementsAre(1, 3));
  }
}

// An answer may contain the bytes of a frame; it is one all the same.
TEST(FrameTest, AFrameInsideAnAnswerIsNotReadAsOne) {
  std::string bytes;
  AppendResult(1, kStore, Result(Frames(2)), &bytes);
  AppendResult(9, kStore, Result("x"), &bytes);
  EXPECT_THAT(Numbers(bytes), ElementsAre(1, 9));
}

// Random bytes, random cuts, random splices: whatever is visited is a frame that was written.
TEST(FrameTest, RubbishNeverBecomesAFrame) {
  const std::string bytes = Frames(20, "some body ");
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::string file = bytes;
    for (uint64_t edits = 1 + random.Below(6); edits > 0; --edits) {
      const size_t at = random.Below(file.size());
      switch (random.Below(4)) {
        case 0:
          file[at] = static_cast<char>(random.Next());
          break;
        case 1:
          file.erase(at, random.Below(300));
          break;
        case 2:
          file.insert(at, file.substr(random.Below(file.size()), random.Below(300)));
          break;
        default:
          file.insert(at, std::string(random.Below(40), static_cast<char>(random.Next())));
      }
      if (file.empty()) file = "n";
    }
    ScanFrames(file, [&](const Frame& frame) {
      v1::AttemptResult result;
      ASSERT_TRUE(
          result.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size())));
      ASSERT_EQ(result.body(), absl::StrCat("some body ", frame.number)) << "seed " << seed;
    });
  }
}

}  // namespace
}  // namespace nightshift
