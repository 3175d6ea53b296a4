#include "storage/keys.h"

namespace nightshift {
namespace {

// Most significant byte first, so that the order of the bytes is the order of the numbers.
template <typename T>
void AppendBigEndian(std::string& out, T number) {
  for (int shift = (sizeof(T) - 1) * 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((number >> shift) & 0xff));
  }
}

template <typename T>
T ReadBigEndian(absl::string_view bytes) {
  T number = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    number = static_cast<T>(number << 8) | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

constexpr size_t kJobBytes = sizeof(uint64_t);
constexpr size_t kRequestBytes = 2 * sizeof(uint64_t);
constexpr size_t kProgressBytes = 2 * sizeof(uint64_t) + sizeof(uint32_t);

std::string PairKey(uint64_t job, uint64_t second) {
  std::string key;
  key.reserve(kRequestBytes);
  AppendBigEndian(key, job);
  AppendBigEndian(key, second);
  return key;
}

}  // namespace

std::string JobKey(uint64_t job) {
  std::string key;
  AppendBigEndian(key, job);
  return key;
}

std::string RequestRowKey(uint64_t job, uint64_t index) { return PairKey(job, index); }

std::string ProgressKey(uint64_t job, uint32_t chunk, uint64_t commit) {
  std::string key;
  key.reserve(kProgressBytes);
  AppendBigEndian(key, job);
  AppendBigEndian(key, chunk);
  AppendBigEndian(key, commit);
  return key;
}

std::string EventKey(uint64_t job, uint64_t sequence) { return PairKey(job, sequence); }

std::optional<uint64_t> ParseJobKey(absl::string_view key) {
  if (key.size() != kJobBytes) return std::nullopt;
  return ReadBigEndian<uint64_t>(key);
}

std::optional<ParsedRequestKey> ParseRequestRowKey(absl::string_view key) {
  if (key.size() != kRequestBytes) return std::nullopt;
  return ParsedRequestKey{ReadBigEndian<uint64_t>(key), ReadBigEndian<uint64_t>(key.substr(8))};
}

std::optional<ParsedProgressKey> ParseProgressKey(absl::string_view key) {
  if (key.size() != kProgressBytes) return std::nullopt;
  return ParsedProgressKey{ReadBigEndian<uint64_t>(key), ReadBigEndian<uint32_t>(key.substr(8)),
                           ReadBigEndian<uint64_t>(key.substr(12))};
}

}  // namespace nightshift
