#include "client/input/file_hash.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "client/input/byte_source.h"
#include "xxhash.h"

namespace nightshift {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

struct StreamHash::State {
  XXH3_state_t* const hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) {
  NIGHTSHIFT_CHECK(state_->hash != nullptr, "out of memory");
  XXH3_128bits_reset(state_->hash);
}

StreamHash::~StreamHash() = default;

void StreamHash::Update(absl::string_view bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string StreamHash::Hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->hash));
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)));
}

absl::StatusOr<std::string> HashFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenFileSource(path, nullptr));
  StreamHash hash;
  std::vector<char> buffer(kReadBytes);
  while (true) {
    ASSIGN_OR_RETURN(const size_t got, source->Read(buffer.data(), buffer.size()));
    if (got == 0) return hash.Hex();
    hash.Update(absl::string_view(buffer.data(), got));
  }
}

}  // namespace nightshift
