// The keys of the coordinator's rows. Numbers are big-endian, so that a scan meets them in order:
//
//   job       u64               families jobs
//   request   u64 job, u64 index            requests, outcomes, responses, attempts
//   chunk     u64 job, u32 chunk, u64 commit   progress (commit 0 = the folded base)
//   event     u64 job, u64 sequence         events
#ifndef NIGHTSHIFT_STORAGE_KEYS_H_
#define NIGHTSHIFT_STORAGE_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// Requests per chunk of the progress family; a bitmap of it is 8 KiB.
inline constexpr uint64_t kChunkRequests = 65536;

std::string JobKey(uint64_t job);
std::string RequestRowKey(uint64_t job, uint64_t index);
std::string ProgressKey(uint64_t job, uint32_t chunk, uint64_t commit);
std::string EventKey(uint64_t job, uint64_t sequence);

// nullopt when the key has another length.
std::optional<uint64_t> ParseJobKey(absl::string_view key);
struct ParsedRequestKey {
  uint64_t job;
  uint64_t index;
};
std::optional<ParsedRequestKey> ParseRequestRowKey(absl::string_view key);
struct ParsedProgressKey {
  uint64_t job;
  uint32_t chunk;
  uint64_t commit;
};
std::optional<ParsedProgressKey> ParseProgressKey(absl::string_view key);

// Every row of `job` in any family keyed by job lies in [JobKey(job), JobKey(job + 1)).

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_KEYS_H_
