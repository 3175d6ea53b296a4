#include "storage/log_tail.h"

#include <array>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kBlockBytes = 32768;
constexpr size_t kHeaderBytes = 7;
constexpr size_t kTypeOffset = 6;
// A whole record, and the first, middle and last piece of one; logs are not recycled here.
constexpr uint32_t kFirstType = 1;
constexpr uint32_t kLastType = 4;

std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

uint32_t Byte(absl::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

size_t LengthAt(absl::string_view block, size_t at) {
  return Byte(block, at + 4) | Byte(block, at + 5) << 8;
}

// Whether a record of `length` bytes of payload at `at` has the checksum that its header tells.
bool ChecksumHolds(absl::string_view block, size_t at, size_t length) {
  const uint32_t stored = Byte(block, at) | Byte(block, at + 1) << 8 | Byte(block, at + 2) << 16 |
                          Byte(block, at + 3) << 24;
  const uint32_t unmasked = stored - 0xa282ead8u;
  const uint32_t crc = unmasked >> 17 | unmasked << 15;
  return crc == Crc32c(block.substr(at + kTypeOffset, 1 + length));
}

bool WholeRecordAt(absl::string_view block, size_t at) {
  const uint32_t type = Byte(block, at + kTypeOffset);
  const size_t length = LengthAt(block, at);
  // Of a torn end some place may look like a record by chance; few are tried where the type has to
  // fit.
  return type >= kFirstType && type <= kLastType && length > 0 &&
         at + kHeaderBytes + length <= block.size() && ChecksumHolds(block, at, length);
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

bool LogTailIsDamaged(absl::string_view block) {
  size_t at = 0;
  while (at + kHeaderBytes <= block.size()) {
    const size_t next = at + kHeaderBytes + LengthAt(block, at);
    if (next > block.size()) break;
    at = next;
  }
  if (at + kHeaderBytes > block.size()) return false;  // ends with whole records, or in a header
  // The record is the last and whole, only its length lies.
  if (ChecksumHolds(block, at, block.size() - at - kHeaderBytes)) return true;
  // Others follow it.
  for (size_t other = at + 1; other + kHeaderBytes <= block.size(); ++other) {
    if (WholeRecordAt(block, other)) return true;
  }
  return false;
}

absl::Status CheckLogTails(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!absl::EndsWith(name, ".log") && !absl::StartsWith(name, "MANIFEST-")) continue;
    const uintmax_t size = entry.file_size(error);
    if (error) break;
    std::string block(size % kBlockBytes, '\0');
    std::ifstream file(entry.path(), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(size - block.size()));
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    if (!file) return absl::UnavailableError(absl::StrCat("cannot read ", entry.path().string()));
    if (LogTailIsDamaged(block)) {
      return absl::DataLossError(
          absl::StrCat("the end of ", name, " is damaged, not just torn off"));
    }
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot list ", folder));
  return absl::OkStatus();
}

}  // namespace nightshift
