// Tells a torn end of a write-ahead log or a manifest, which a crash leaves and recovery cuts off,
// from a damaged one, where cutting off would silently lose what was acknowledged.
//
// RocksDB takes a record whose length points beyond the end of the file for torn. If it is the
// length that is damaged, the record, or others behind it, are there all the same and their
// checksums hold: that is what is looked for here. (Damage anywhere else in a log RocksDB notices
// itself.)
//
// Format, from RocksDB's db/log_format.h: blocks of 32 KiB of records
//   masked CRC-32C of type and payload (4 bytes, little-endian), length (2), type (1), payload
// that do not cross blocks; the rest of a block may be zero.
#ifndef NIGHTSHIFT_STORAGE_LOG_TAIL_H_
#define NIGHTSHIFT_STORAGE_LOG_TAIL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// True when `block`, the last of a log and shorter than a whole one, ends in a record whose length
// is damaged.
bool LogTailIsDamaged(absl::string_view block);

// Checks all logs (*.log) and manifests (the same format) in `folder`. DataLoss names the file;
// Unavailable when one cannot be read.
absl::Status CheckLogTails(const std::string& folder);

// CRC-32C (Castagnoli).
uint32_t Crc32c(absl::string_view bytes);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_LOG_TAIL_H_
