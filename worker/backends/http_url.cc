#include "worker/backends/http_url.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace nightshift {
namespace {

struct CurluDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using CurluPtr = std::unique_ptr<CURLU, CurluDeleter>;

// Empty when the URL has no such part.
std::string Part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK || text == nullptr) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

bool IsLoopbackHost(absl::string_view host) {
  return host == "localhost" || absl::EndsWith(host, ".localhost") ||
         absl::StartsWith(host, "127.") || host == "[::1]";
}

}  // namespace

std::string HttpUrl::Authority() const { return port_given ? absl::StrCat(host, ":", port) : host; }

std::string HttpUrl::Origin() const { return absl::StrCat(scheme, "://", Authority()); }

absl::StatusOr<HttpUrl> ParseHttpUrl(absl::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
      return absl::InvalidArgumentError("a URL has no blanks or control characters in it");
  }
  const size_t scheme_end = text.find("://");
  if (scheme_end == absl::string_view::npos)
    return absl::InvalidArgumentError("a URL begins with http:// or https://");
  const std::string scheme = absl::AsciiStrToLower(text.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") {
    return absl::InvalidArgumentError(
        absl::StrCat("a backend is called over http:// or https://, not ", scheme, "://"));
  }
  // libcurl forgives a third slash and takes the path for the host.
  if (absl::StartsWith(text.substr(scheme_end + 3), "/"))
    return absl::InvalidArgumentError("the URL names no host");
  const CurluPtr url(curl_url());
  if (url == nullptr) return absl::ResourceExhaustedError("out of memory");
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), 0);
  if (code != CURLUE_OK) {
    // libcurl's sentences name the part that is wrong and never repeat it.
    return absl::InvalidArgumentError(
        absl::StrCat("not a URL: ", absl::AsciiStrToLower(curl_url_strerror(code))));
  }
  if (!Part(url.get(), CURLUPART_USER).empty() || !Part(url.get(), CURLUPART_PASSWORD).empty()) {
    return absl::InvalidArgumentError(
        "a URL with a user name or password in it is refused, since it would show in lists of "
        "processes and in logs; put the key into an environment variable");
  }
  if (!Part(url.get(), CURLUPART_QUERY).empty() || absl::StrContains(text, "?")) {
    return absl::InvalidArgumentError(
        "a base URL ends before the endpoint's own path, so it cannot have a query (?…)");
  }
  if (absl::StrContains(text, "#"))
    return absl::InvalidArgumentError("a base URL has no fragment (#…)");

  HttpUrl parsed;
  parsed.scheme = scheme;
  parsed.host = absl::AsciiStrToLower(Part(url.get(), CURLUPART_HOST));
  if (parsed.host.empty()) return absl::InvalidArgumentError("the URL names no host");
  const std::string zone = Part(url.get(), CURLUPART_ZONEID);
  if (!zone.empty() && absl::EndsWith(parsed.host, "]") && !absl::StrContains(parsed.host, "%"))
    parsed.host.insert(parsed.host.size() - 1, absl::StrCat("%25", zone));
  const std::string port = Part(url.get(), CURLUPART_PORT);
  parsed.port_given = !port.empty();
  parsed.port = scheme == "https" ? 443 : 80;
  if (parsed.port_given &&
      (!absl::SimpleAtoi(port, &parsed.port) || parsed.port < 1 || parsed.port > 65535))
    return absl::InvalidArgumentError("the URL's port is not a number from 1 to 65535");
  parsed.path = Part(url.get(), CURLUPART_PATH);
  while (absl::EndsWith(parsed.path, "/")) parsed.path.pop_back();
  parsed.loopback = IsLoopbackHost(parsed.host);
  return parsed;
}

std::string UrlStep(absl::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string step;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      step.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      step.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return step;
}

}  // namespace nightshift
