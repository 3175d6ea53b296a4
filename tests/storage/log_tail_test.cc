#include "storage/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

// A record as RocksDB writes it.
std::string Record(const std::string& payload) {
  const std::string covered = absl::StrCat("\x01", payload);
  const uint32_t crc = Crc32c(covered);
  const uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
  std::string record;
  for (int shift = 0; shift < 32; shift += 8) record.push_back(static_cast<char>(masked >> shift));
  record.push_back(static_cast<char>(payload.size() & 0xff));
  record.push_back(static_cast<char>(payload.size() >> 8));
  return record + covered;
}

TEST(LogTailTest, Crc32cHasTheStandardValues) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(LogTailTest, WholeLogIsFine) {
  EXPECT_FALSE(LogTailIsDamaged(""));
  EXPECT_FALSE(LogTailIsDamaged(Record("one") + Record(std::string(300, 'x'))));
}

TEST(LogTailTest, TornEndIsFineWhereverItTears) {
  const std::string whole = Record("one");
  const std::string log = whole + Record(std::string(300, 'x'));
  for (size_t size = whole.size(); size < log.size(); ++size) {
    EXPECT_FALSE(LogTailIsDamaged(log.substr(0, size))) << size;
  }
}

TEST(LogTailTest, DamagedLengthIsFoundByTheRecordsBehindIt) {
  std::string log = Record("one") + Record("two") + Record("three");
  log[Record("one").size() + 5] = '\x40';
  EXPECT_TRUE(LogTailIsDamaged(log));
}

TEST(LogTailTest, DamagedLengthOfTheLastRecordIsFoundByItsChecksum) {
  std::string log = Record("one") + Record("two");
  log[Record("one").size() + 5] = '\x01';
  EXPECT_TRUE(LogTailIsDamaged(log));
}

TEST(LogTailTest, PreallocatedZeroesAreNoDamage) {
  EXPECT_FALSE(LogTailIsDamaged(Record("one") + std::string(500, '\0')));
}

}  // namespace
}  // namespace nightshift
