#include "worker/backends/curl_handles.h"

#include <mutex>

namespace nightshift {

void InitCurlOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    NIGHTSHIFT_CHECK(code == CURLE_OK, curl_easy_strerror(code));
  });
}

const char* UserAgent() { return "nightshift/" NIGHTSHIFT_VERSION; }

}  // namespace nightshift
