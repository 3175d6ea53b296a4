#include "coordinator/http/chunk_check.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"

namespace nightshift {
namespace {

// 60 bits: nobody sends a longer chunk.
constexpr int kSizeDigitsMax = 15;

uint64_t ValueOf(char digit) {
  if (digit <= '9') return static_cast<uint64_t>(digit - '0');
  return static_cast<uint64_t>((digit | 0x20) - 'a' + 10);
}

}  // namespace

bool ChunkCheck::Take(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (part_ == Part::kData) {
      const size_t taken = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      left_ -= taken;
      bytes.remove_prefix(taken);
      if (left_ == 0) part_ = Part::kDataCr;
    } else {
      if (!Step(bytes.front())) return false;
      bytes.remove_prefix(1);
    }
  }
  return true;
}

bool ChunkCheck::Expect(bool found, Part next) {
  part_ = next;
  return found;
}

bool ChunkCheck::Step(char c) {
  switch (part_) {
    case Part::kSize:
      if (absl::ascii_isxdigit(static_cast<unsigned char>(c))) {
        left_ = left_ * 16 + ValueOf(c);
        return ++digits_ <= kSizeDigitsMax;
      }
      if (digits_ == 0) return false;
      [[fallthrough]];
    case Part::kPadding:
      if (c == ' ' || c == '\t') return Expect(true, Part::kPadding);
      if (c == ';') return Expect(true, Part::kExtension);
      return Expect(c == '\r', Part::kSizeLf);
    case Part::kExtension:
      if (c == '\r') part_ = Part::kSizeLf;
      return c != '\n';
    case Part::kSizeLf:
      return Expect(c == '\n', left_ == 0 ? Part::kLastCr : Part::kData);
    case Part::kDataCr:
      return Expect(c == '\r', Part::kDataLf);
    case Part::kDataLf:
      digits_ = 0;
      return Expect(c == '\n', Part::kSize);
    case Part::kLastCr:
      return Expect(c == '\r', Part::kLastLf);
    case Part::kLastLf:
      return Expect(c == '\n', Part::kEnd);
    case Part::kData:
    case Part::kEnd:
      break;
  }
  return false;
}

}  // namespace nightshift
