#include "storage/record.h"

#include <google/protobuf/message_lite.h>
// The incremental state is an opaque type unless the functions are inlined.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kChecksumBytes = 8;
// A key in a message is for a person to find the row; more than this finds nothing faster.
constexpr size_t kShownKeyBytesMax = 64;

uint64_t Checksum(absl::string_view key, absl::string_view payload) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, key.data(), key.size());
  XXH3_64bits_update(&state, payload.data(), payload.size());
  return XXH3_64bits_digest(&state);
}

void StoreChecksum(uint64_t checksum, char* out) {
  for (size_t i = 0; i < kChecksumBytes; ++i) out[i] = static_cast<char>(checksum >> (8 * i));
}

uint64_t LoadChecksum(absl::string_view value) {
  uint64_t checksum = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    checksum |= uint64_t{static_cast<unsigned char>(value[i])} << (8 * i);
  }
  return checksum;
}

std::string ShownKey(absl::string_view key) {
  if (key.size() <= kShownKeyBytesMax) return absl::BytesToHexString(key);
  return absl::StrCat(absl::BytesToHexString(key.substr(0, kShownKeyBytesMax)), "…");
}

}  // namespace

std::string EncodeRecord(absl::string_view key, const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  std::string value(kChecksumBytes + size, '\0');
  NIGHTSHIFT_CHECK(
      message.SerializeToArray(value.data() + kChecksumBytes, static_cast<int>(size)),
      absl::StrCat("cannot serialize a ", message.GetTypeName(), " of ", size, " bytes"));
  StoreChecksum(Checksum(key, absl::string_view(value).substr(kChecksumBytes)), value.data());
  return value;
}

absl::Status DecodeRecord(absl::string_view key, absl::string_view value,
                          google::protobuf::MessageLite* message) {
  ASSIGN_OR_RETURN(const absl::string_view payload, DecodeBytes(key, value));
  if (!message->ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError(absl::StrCat("the row with key ", ShownKey(key), " is not a valid ",
                                            message->GetTypeName()));
  }
  return absl::OkStatus();
}

std::string EncodeBytes(absl::string_view key, absl::string_view bytes) {
  std::string value;
  value.reserve(kChecksumBytes + bytes.size());
  value.resize(kChecksumBytes);
  value.append(bytes.data(), bytes.size());
  StoreChecksum(Checksum(key, bytes), value.data());
  return value;
}

absl::StatusOr<absl::string_view> DecodeBytes(absl::string_view key, absl::string_view value) {
  if (value.size() < kChecksumBytes) {
    return absl::DataLossError(absl::StrCat("the row with key ", ShownKey(key), " has only ",
                                            value.size(), " bytes: its checksum is missing"));
  }
  const absl::string_view payload = value.substr(kChecksumBytes);
  if (LoadChecksum(value) != Checksum(key, payload)) {
    return absl::DataLossError(
        absl::StrCat("the row with key ", ShownKey(key), " is damaged: its checksum is wrong"));
  }
  return payload;
}

}  // namespace nightshift
