// How a protobuf message becomes a value of the store: a checksum of our own, then the message, so
// that damage below us is noticed and never taken for an answer.
//
//   value := xxh3_64(key ++ payload) little-endian (8 bytes), payload
//
// The key is part of the checksum: a value that landed under another key is damage too.
#ifndef NIGHTSHIFT_STORAGE_RECORD_H_
#define NIGHTSHIFT_STORAGE_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class MessageLite;
}

namespace nightshift {

std::string EncodeRecord(absl::string_view key, const google::protobuf::MessageLite& message);
// DataLoss when the checksum or the message is wrong; the text names the key in hex.
absl::Status DecodeRecord(absl::string_view key, absl::string_view value,
                          google::protobuf::MessageLite* message);

// The same frame around plain bytes (answers of backends).
std::string EncodeBytes(absl::string_view key, absl::string_view bytes);
// The view points into `value`.
absl::StatusOr<absl::string_view> DecodeBytes(absl::string_view key, absl::string_view value);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_RECORD_H_
