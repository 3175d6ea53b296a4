#include "client/input/decompress.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/input/input_support.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

struct Unpacked {
  std::string text;
  absl::Status status;
  std::string warning;
  Compression compression = Compression::kNone;
};

Unpacked Unpack(const std::string& packed, uint64_t seed = 1) {
  Unpacked result;
  auto source =
      DecompressingSource::Create(std::make_unique<CrumbSource>(packed, seed), "prompts.gz");
  result.status = source.status();
  if (!source.ok()) return result;
  result.compression = (*source)->compression();
  std::vector<char> buffer(1000);
  while (true) {
    const absl::StatusOr<size_t> got = (*source)->Read(buffer.data(), buffer.size());
    result.status = got.status();
    if (!got.ok() || *got == 0) break;
    result.text.append(buffer.data(), *got);
  }
  result.warning = (*source)->warning();
  return result;
}

std::string SomeText(size_t size) {
  Random random(5);
  std::string text;
  while (text.size() < size) absl::StrAppend(&text, "line ", random.Below(1000), "\n");
  return text;
}

TEST(DecompressTest, PlainBytesPassAsTheyAre) {
  for (const std::string text : {"", "a", "{\"a\":1}\n", "PK is no archive"}) {
    const Unpacked result = Unpack(text);
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.text, text);
    EXPECT_EQ(result.compression, Compression::kNone);
  }
}

TEST(DecompressTest, GzipAndZstdAreTakenByTheirFirstBytes) {
  const std::string text = SomeText(700'000);
  EXPECT_EQ(Unpack(Gzip(text)).text, text);
  EXPECT_EQ(Unpack(Gzip(text)).compression, Compression::kGzip);
  EXPECT_EQ(Unpack(Zstd(text)).text, text);
  EXPECT_EQ(Unpack(Zstd(text)).compression, Compression::kZstd);
  EXPECT_EQ(Unpack(Gzip("")).text, "");
  EXPECT_TRUE(Unpack(Gzip("")).status.ok());
}

TEST(DecompressTest, SeveralMembersAreOneText) {
  const Unpacked gzip = Unpack(Gzip("one\n") + Gzip("") + Gzip("two\n"));
  EXPECT_TRUE(gzip.status.ok()) << gzip.status;
  EXPECT_EQ(gzip.text, "one\ntwo\n");
  EXPECT_EQ(gzip.warning, "");
  const std::string skippable("\x53\x2A\x4D\x18\x03\x00\x00\x00xyz", 11);
  const Unpacked zstd = Unpack(skippable + Zstd("one\n") + skippable + Zstd("two\n"));
  EXPECT_TRUE(zstd.status.ok()) << zstd.status;
  EXPECT_EQ(zstd.text, "one\ntwo\n");
  EXPECT_EQ(zstd.warning, "");
}

// A short job that looks whole would be the worst answer.
TEST(DecompressTest, CutOffDataIsAnErrorWhereverItIsCut) {
  const std::string text = SomeText(3000);
  for (const std::string& packed : {Gzip(text), Zstd(text)}) {
    for (size_t size = 4; size < packed.size(); size += 1 + size / 20) {
      const Unpacked result = Unpack(packed.substr(0, size));
      EXPECT_TRUE(absl::IsDataLoss(result.status)) << size << " of " << packed.size();
      EXPECT_THAT(std::string(result.status.message()), HasSubstr("ends in the middle"));
    }
    const Unpacked almost = Unpack(packed.substr(0, packed.size() - 1));
    EXPECT_TRUE(absl::IsDataLoss(almost.status));
    EXPECT_TRUE(absl::IsDataLoss(Unpack(packed + packed.substr(0, 20)).status));
  }
}

TEST(DecompressTest, DamagedDataIsAnError) {
  std::string packed = Gzip(SomeText(3000));
  packed[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_TRUE(absl::IsDataLoss(Unpack(packed).status));
  std::string zstd = Zstd(SomeText(3000));
  zstd[zstd.size() / 2] ^= 0x55;
  zstd[zstd.size() / 2 + 1] ^= 0x55;
  const Unpacked result = Unpack(zstd);
  EXPECT_TRUE(!result.status.ok() || result.text != SomeText(3000));
}

TEST(DecompressTest, WhatFollowsTheLastMemberIsSaid) {
  for (const std::string& packed : {Gzip("one\n"), Zstd("one\n")}) {
    const Unpacked result = Unpack(packed + "garbage");
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.text, "one\n");
    EXPECT_THAT(result.warning, HasSubstr("prompts.gz"));
  }
  const Unpacked padded = Unpack(Gzip("one\n") + std::string(1024, '\0'));
  EXPECT_TRUE(padded.status.ok());
  EXPECT_EQ(padded.warning, "");
}

TEST(DecompressTest, LongZstdWindowsAreRefusedInWords) {
  // A frame with a window of 2^28 bytes that holds the one byte "x".
  const Unpacked result = Unpack(std::string("\x28\xB5\x2F\xFD\x00\x90\x09\x00\x00x", 10));
  EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("--long"));
}

TEST(DecompressTest, FilesThatAreNoTextAtAllAreRefusedByKind) {
  EXPECT_THAT(std::string(Unpack("PK\x03\x04....").status.message()), HasSubstr("CSV"));
  EXPECT_THAT(std::string(Unpack("PAR1....").status.message()), HasSubstr("Parquet"));
  EXPECT_THAT(std::string(Unpack("\xFD"
                                 "7zXZ...")
                              .status.message()),
              HasSubstr("xz"));
}

TEST(DecompressTest, RandomDamageNeverHangsOrCrashes) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  const std::string text = SomeText(2000);
  for (int round = 0; round < 500; ++round) {
    std::string packed = round % 2 == 0 ? Gzip(text) : Zstd(text);
    for (uint64_t i = random.Below(4); i > 0; --i) {
      packed[random.Below(packed.size())] = static_cast<char>(random.Below(256));
    }
    packed.resize(packed.size() - random.Below(10));
    const Unpacked result = Unpack(packed, random.Next());
    // A flipped bit in zstd data without a checksum may pass; it must not grow without bound.
    EXPECT_LT(result.text.size(), 10'000'000u);
  }
}

}  // namespace
}  // namespace nightshift
