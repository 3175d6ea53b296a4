#include "coordinator/core/job_id.h"

#include <cstdint>

namespace nightshift {
namespace {

constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr int kCharsOfEach = kJobIdChars / 2;

void AppendBase32(uint64_t value, std::string* out) {
  for (int shift = 5 * (kCharsOfEach - 1); shift >= 0; shift -= 5) {
    out->push_back(kAlphabet[(value >> shift) & 31]);
  }
}

}  // namespace

std::string NewJobId(absl::Time wall, Random& random) {
  std::string id(kJobIdPrefix.data(), kJobIdPrefix.size());
  AppendBase32(random.Next(), &id);
  AppendBase32(static_cast<uint64_t>(absl::ToUnixSeconds(wall)), &id);
  return id;
}

}  // namespace nightshift
