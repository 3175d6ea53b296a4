#include "worker/gpu_figures.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/backends/server_load.h"

namespace nightshift {
namespace {

// A driver in trouble lets it hang.
constexpr char kCommand[] =
    "timeout 2 nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total,power.draw "
    "--format=csv,noheader,nounits 2>/dev/null";

bool IsInstalled() {
  const char* const path = std::getenv("PATH");
  if (path == nullptr) return false;
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    if (access(absl::StrCat(folder, "/nvidia-smi").c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

void AddGpuFigures(v1::ServerLoad* load) {
  static const bool installed = IsInstalled();
  if (!installed) return;
  const auto close = [](FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(kCommand, "re"), close);
  if (pipe == nullptr) return;
  std::string text;
  char buffer[4096];
  while (fgets(buffer, sizeof(buffer), pipe.get()) != nullptr) text += buffer;
  ReadNvidiaSmi(text, load);
}

}  // namespace nightshift
