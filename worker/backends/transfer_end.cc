#include "worker/backends/transfer_end.h"

#include <curl/curl.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace nightshift {
namespace {

// The system's words begin with a capital letter; ours go into the middle of sentences.
std::string SystemError(long error) {
  char buffer[128];
  std::string words = strerror_r(static_cast<int>(error), buffer, sizeof(buffer));
  if (!words.empty() && !(words.size() > 1 && absl::ascii_isupper(words[1])))
    words[0] = absl::ascii_tolower(words[0]);
  return words;
}

std::string CurlWords(const TransferEnd& end) {
  std::string words(end.curl_message.empty() ? absl::string_view(curl_easy_strerror(
                                                   static_cast<CURLcode>(end.curl_code)))
                                             : end.curl_message);
  for (char& c : words) {
    if (c < ' ' || c >= 0x7f) c = ' ';
  }
  return words;
}

TransportResult ConnectFailed(const TransferEnd& end) {
  if (end.os_error == EMFILE || end.os_error == ENFILE) {
    return {
        Transport::kConnectFailed,
        absl::StrCat(SystemError(end.os_error), " on this machine; raise the limit (ulimit -n)")};
  }
  if (end.os_error != 0) return {Transport::kConnectFailed, SystemError(end.os_error)};
  return {Transport::kConnectFailed, CurlWords(end)};
}

// The connection broke after it had been made.
TransportResult Cut(const TransferEnd& end, Transport when_nothing_came) {
  if (!end.any_byte_back) {
    if (end.reused) {
      return {Transport::kStaleConnection, kStaleConnectionWords};
    }
    if (when_nothing_came == Transport::kSendFailed)
      return {Transport::kSendFailed, "the connection broke while the request was sent"};
    return {Transport::kReset, "the server closed the connection without an answer"};
  }
  if (end.body_bytes_told >= 0) {
    return {Transport::kReset, absl::StrCat("the connection broke after ", end.body_bytes, " of ",
                                            end.body_bytes_told, " bytes of the answer")};
  }
  return {Transport::kReset,
          absl::StrCat("the connection broke after ", end.body_bytes, " bytes of the answer")};
}

}  // namespace

std::string InSeconds(absl::Duration d) { return absl::StrCat(absl::ToDoubleSeconds(d), " s"); }

TransportResult DescribeTransfer(const TransferEnd& end) {
  if (end.too_large) {
    return {Transport::kTooLarge,
            absl::StrCat("the answer is larger than ", HumanSize(end.response_bytes_max),
                         ", the most that is taken")};
  }
  switch (end.curl_code) {
    case CURLE_OK:
      return {Transport::kComplete, ""};
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {Transport::kResolveFailed, CurlWords(end)};
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
    case CURLE_INTERFACE_FAILED:
      return ConnectFailed(end);
    case CURLE_OPERATION_TIMEDOUT:
      // The only timer that libcurl keeps for us is the one for connecting.
      return {Transport::kConnectFailed,
              absl::StrCat("no connection within ", InSeconds(end.connect_timeout))};
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_USE_SSL_FAILED:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_SHUTDOWN_FAILED:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CLIENTCERT:
      return {Transport::kTlsFailed, CurlWords(end)};
    case CURLE_SEND_ERROR:
      return Cut(end, Transport::kSendFailed);
    case CURLE_RECV_ERROR:
      if (absl::StrContains(end.curl_message, "chunk"))
        return {Transport::kBadProtocol, absl::StrCat("not HTTP: ", CurlWords(end))};
      return Cut(end, Transport::kReset);
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_ABORTED_BY_CALLBACK:
      return Cut(end, Transport::kReset);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP3:
      return {Transport::kBadProtocol, absl::StrCat("not HTTP: ", CurlWords(end))};
    default:
      break;
  }
  // Nothing else is known to happen; take it for what asks least of the request.
  if (!end.connected) return {Transport::kConnectFailed, CurlWords(end)};
  return {Transport::kReset, CurlWords(end)};
}

}  // namespace nightshift
