#include "worker/level_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

struct Memory {
  int level = 0;
  int64_t at = 0;  // Unix seconds
};

// What makes sense in the file; the rest is as if it were not there.
std::map<std::string, Memory> Read(const std::string& path) {
  std::map<std::string, Memory> memories;
  std::ifstream in(path);
  const Json document = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("version", Json()) != kVersion) return memories;
  const Json backends = document.value("backends", Json::object());
  if (!backends.is_object()) return memories;
  for (const auto& [name, entry] : backends.items()) {
    if (!entry.is_object()) continue;
    const Json level = entry.value("level", Json());
    const Json at = entry.value("at", Json());
    if (!level.is_number_integer() || !at.is_number_integer()) continue;
    const auto number = level.get<int64_t>();
    if (number < 1 || number > 1'000'000) continue;
    memories[name] = {static_cast<int>(number), at.get<int64_t>()};
  }
  return memories;
}

}  // namespace

std::map<std::string, int> ReadFirstLevels(const std::string& path, absl::Time now) {
  std::map<std::string, int> levels;
  for (const auto& [name, memory] : Read(path)) {
    if (absl::FromUnixSeconds(memory.at) < now - kRememberedFor) continue;
    levels[name] = std::clamp(static_cast<int>(kRememberedShare * memory.level), 1, kRememberedMax);
  }
  return levels;
}

absl::Status WriteLevels(const std::string& path, const std::map<std::string, int>& levels,
                         absl::Time now) {
  std::map<std::string, Memory> memories = Read(path);
  for (const auto& [name, level] : levels) memories[name] = {level, absl::ToUnixSeconds(now)};
  while (memories.size() > static_cast<size_t>(kRememberedBackendsMax)) {
    memories.erase(
        std::min_element(memories.begin(), memories.end(),
                         [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
  }
  Json backends = Json::object();
  for (const auto& [name, memory] : memories) {
    backends[name] = {{"level", memory.level}, {"at", memory.at}};
  }
  const Json document = {{"version", kVersion}, {"backends", std::move(backends)}};

  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  // Of this process: two workers may share a data folder.
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  {
    std::ofstream out(temporary, std::ios::trunc);
    out << document.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
    if (!out.flush()) {
      std::filesystem::remove(temporary, error);
      return absl::UnavailableError(absl::StrCat("cannot write ", temporary));
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace nightshift
