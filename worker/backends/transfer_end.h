// How a transfer ended, from libcurl's words into ours. Pure.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_TRANSFER_END_H_
#define NIGHTSHIFT_WORKER_BACKENDS_TRANSFER_END_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/core/call.h"

namespace nightshift {

// Of a connection that had served calls before.
inline constexpr char kStaleConnectionWords[] =
    "the server closed an idle connection just as it was used again";

struct TransferEnd {
  int curl_code = 0;                    // CURLcode
  long os_error = 0;                    // errno of the last failed connect, 0 = none
  bool reused = false;                  // went over a connection that had served before
  bool connected = false;               // the request could be sent
  bool any_byte_back = false;           // of the response, headers included
  bool too_large = false;               // we cut it: the body passed its bound
  int64_t body_bytes = 0;               // received
  int64_t body_bytes_told = -1;         // by Content-Length; -1 = not told
  absl::string_view curl_message = "";  // libcurl's own sentence; may be empty
  absl::Duration connect_timeout = absl::ZeroDuration();
  int64_t response_bytes_max = 0;
};

struct TransportResult {
  Transport transport = Transport::kComplete;
  std::string detail;  // in words; empty when complete
};

TransportResult DescribeTransfer(const TransferEnd& end);

// "600 s", "0.25 s": durations in the details of this folder.
std::string InSeconds(absl::Duration d);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_TRANSFER_END_H_
