// The body that creates a batch, taken apart and checked.
//
// Pure functions; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCH_REQUEST_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCH_REQUEST_H_

#include "absl/strings/string_view.h"
#include "coordinator/http/http_message.h"
#include "nightshift/v1/files.pb.h"

namespace nightshift {

inline constexpr int kMetadataPairsMax = 16;
inline constexpr size_t kMetadataKeyBytesMax = 64;
inline constexpr size_t kMetadataValueBytesMax = 512;
// Records are held in memory for weeks, also those of batches that are refused at once.
inline constexpr int kLabelsMax = 64;
inline constexpr size_t kLabelKeyBytesMax = 128;
inline constexpr size_t kLabelValueBytesMax = 512;
inline constexpr size_t kBatchNameBytesMax = 512;
inline constexpr size_t kIdempotencyKeyBytesMax = 255;
// Of an input's id and a completion window, as written.
inline constexpr size_t kBatchWordBytesMax = 128;
// Of a completion window and an output's life, in seconds; a year, and a month.
inline constexpr int64_t kWindowSecondsMax = 366 * 86400;
inline constexpr int64_t kOutputSecondsMin = 3600;
inline constexpr int64_t kOutputSecondsMax = 2'592'000;

// Fills what the client chose of `record`, its body hash and, when the body names one, its
// idempotency key; or returns false with the refusal, which names the parameter.
bool ParseBatchRequest(absl::string_view body, v1::BatchRecord* record, HttpReply* refusal);

// Sets an idempotency key, wherever it comes from; or returns false likewise.
bool SetIdempotencyKey(absl::string_view key, v1::BatchRecord* record, HttpReply* refusal);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCH_REQUEST_H_
