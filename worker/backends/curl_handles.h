// libcurl's handles with owners. Only for the sources of this folder.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_CURL_HANDLES_H_
#define NIGHTSHIFT_WORKER_BACKENDS_CURL_HANDLES_H_

#include <curl/curl.h>

#include <memory>

#include "base/check.h"

namespace nightshift {

// CURL, CURLM and CURLSH may all be void: the owners differ by their deleters.
struct CurlEasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct CurlMultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct CurlShareDeleter {
  void operator()(CURLSH* share) const { curl_share_cleanup(share); }
};
struct CurlListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using CurlEasyPtr = std::unique_ptr<CURL, CurlEasyDeleter>;
using CurlMultiPtr = std::unique_ptr<CURLM, CurlMultiDeleter>;
using CurlSharePtr = std::unique_ptr<CURLSH, CurlShareDeleter>;
using CurlUrlPtr = std::unique_ptr<CURLU, CurlUrlDeleter>;
using CurlListPtr = std::unique_ptr<curl_slist, CurlListDeleter>;

// Options are constants of ours: one that libcurl refuses is a mistake in this program.
template <typename Value>
void SetOption(CURL* easy, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  NIGHTSHIFT_CHECK(code == CURLE_OK, curl_easy_strerror(code));
}

// Before the first use of libcurl in this process; thread-safe.
void InitCurlOnce();

// "nightshift/VERSION".
const char* UserAgent();

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_CURL_HANDLES_H_
