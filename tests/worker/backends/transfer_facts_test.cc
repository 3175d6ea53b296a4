// The small pure parts around a transfer: its headers, its end, its timers.
#include <curl/curl.h>

#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backends/call_timers.h"
#include "worker/backends/response_headers.h"
#include "worker/backends/server_signs.h"
#include "worker/backends/transfer_end.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1790000000);

absl::Duration RetryAfter(const std::vector<std::string>& lines, bool quota = false) {
  ResponseHeaders headers;
  headers.TakeLine("HTTP/1.1 429 Too Many Requests\r\n");
  for (const std::string& line : lines) headers.TakeLine(line + "\r\n");
  return headers.RetryAfter(kNow, quota);
}

TEST(ResponseHeadersTest, RetryAfterInAllSpellings) {
  EXPECT_EQ(RetryAfter({}), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({"Retry-After: 7"}), absl::Seconds(7));
  EXPECT_EQ(RetryAfter({"retry-after: 0.5"}), absl::Milliseconds(500));
  EXPECT_EQ(RetryAfter({"retry-after-ms: 1500.5", "retry-after: 90"}), absl::Milliseconds(1500.5));
  EXPECT_EQ(RetryAfter({"Retry-After: " + absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT",
                                                           kNow + absl::Seconds(42),
                                                           absl::UTCTimeZone())}),
            absl::Seconds(42));
  EXPECT_EQ(RetryAfter({"Retry-After: Thu, 01 Jan 1970 00:00:00 GMT"}), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({"retry-after: soon"}), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({"retry-after: -5"}), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({"retry-after: nan"}), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({"retry-after: 1e300"}), ResponseHeaders::kRetryAfterMax);
}

// Cerebras tells when a quota is full again in headers of its own, as seconds; OpenAI as "1m3s".
TEST(ResponseHeadersTest, ExhaustedQuotaTellsWhenItResets) {
  const std::vector<std::string> lines = {
      "x-ratelimit-limit-requests-day: 14400", "x-ratelimit-remaining-requests-day: 0",
      "x-ratelimit-reset-requests-day: 33011.38", "x-ratelimit-remaining-tokens-minute: 0",
      "x-ratelimit-reset-tokens-minute: 12.5"};
  EXPECT_EQ(RetryAfter(lines, true), absl::Milliseconds(12500));
  EXPECT_EQ(RetryAfter(lines, false), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({"X-RateLimit-Remaining-Tokens: 0", "X-RateLimit-Reset-Tokens: 1m3s"}, true),
            absl::Seconds(63));
  EXPECT_EQ(RetryAfter({"x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 9",
                        "retry-after: 2"},
                       true),
            absl::Seconds(2));
}

TEST(ResponseHeadersTest, RateLimitsOfAllSpellings) {
  ResponseHeaders headers;
  for (const char* line :
       {"HTTP/1.1 200 OK", "X-RateLimit-Limit-Requests-Day: 14400",
        "x-ratelimit-remaining-requests-day: 14000", "x-ratelimit-reset-requests-day: 33011.38",
        "x-ratelimit-limit-tokens: 6000", "x-ratelimit-remaining-tokens: 5000",
        "x-ratelimit-reset-tokens: 6m0.5s", "x-ratelimit-limit-requests-minute: 30",
        "x-ratelimit-remaining-requests-minute: 29",
        "x-ratelimit-reset-requests-minute: 1790000042", "x-ratelimit-limit-images-minute: 5",
        "x-ratelimit-limit-tokens-fortnight: 5", "x-ratelimit-limit: 5"}) {
    headers.TakeLine(line);
  }
  const std::vector<RateLimit> limits = headers.RateLimits(kNow);
  ASSERT_EQ(limits.size(), 3u);
  EXPECT_EQ(limits[0].unit, RateUnit::kRequests);
  EXPECT_EQ(limits[0].window, absl::Hours(24));
  EXPECT_EQ(limits[0].limit, 14400);
  EXPECT_EQ(limits[0].remaining, 14000);
  EXPECT_EQ(limits[0].reset, absl::Seconds(33011.38));
  EXPECT_EQ(limits[1].unit, RateUnit::kTokens);
  EXPECT_EQ(limits[1].window, absl::ZeroDuration()) << "its name does not say";
  EXPECT_EQ(limits[1].reset, absl::Seconds(360.5));
  EXPECT_EQ(limits[2].reset, absl::Seconds(42)) << "told as a moment";
  headers.Clear();
  EXPECT_TRUE(headers.RateLimits(kNow).empty());
}

TEST(ResponseHeadersTest, AFinalStatusLineForgetsInterimHeaders) {
  ResponseHeaders headers;
  headers.TakeLine("HTTP/1.1 103 Early Hints\r\n");
  headers.TakeLine("x-request-id: early\r\n");
  headers.TakeLine("HTTP/1.1 200 OK\r\n");
  headers.TakeLine("Content-Length: 12\r\n");
  headers.TakeLine("Content-Type: text/event-stream; charset=utf-8\r\n");
  headers.TakeLine("\r\n");
  EXPECT_TRUE(headers.any());
  EXPECT_EQ(headers.request_id(), "");
  EXPECT_EQ(headers.content_length(), 12);
  EXPECT_TRUE(headers.is_event_stream());
  headers.Clear();
  EXPECT_FALSE(headers.any());
  EXPECT_EQ(headers.content_length(), -1);
}

TEST(ResponseHeadersTest, RequestIdIsPrintableAndBounded) {
  ResponseHeaders headers;
  headers.TakeLine("request-id: second-choice\r\n");
  headers.TakeLine("X-Request-Id: a\x01\xC3\xA4z" + std::string(500, 'q') + "\r\n");
  EXPECT_THAT(headers.request_id(), ::testing::StartsWith("azq"));
  EXPECT_LE(headers.request_id().size(), 128u);
}

TEST(TransferEndTest, EveryCodeHasItsTransport) {
  struct Case {
    TransferEnd end;
    Transport transport;
    const char* detail;
  };
  const Case cases[] = {
      {{.curl_code = CURLE_OK}, Transport::kComplete, ""},
      {{.curl_code = CURLE_COULDNT_CONNECT, .os_error = ECONNREFUSED},
       Transport::kConnectFailed,
       "connection refused"},
      {{.curl_code = CURLE_COULDNT_CONNECT, .os_error = EHOSTUNREACH},
       Transport::kConnectFailed,
       "no route to host"},
      {{.curl_code = CURLE_COULDNT_CONNECT, .os_error = EMFILE},
       Transport::kConnectFailed,
       "ulimit -n"},
      {{.curl_code = CURLE_COULDNT_RESOLVE_HOST, .curl_message = "Could not resolve host: x"},
       Transport::kResolveFailed,
       "Could not resolve host: x"},
      {{.curl_code = CURLE_OPERATION_TIMEDOUT, .connect_timeout = absl::Milliseconds(1500)},
       Transport::kConnectFailed,
       "no connection within 1.5 s"},
      {{.curl_code = CURLE_PEER_FAILED_VERIFICATION}, Transport::kTlsFailed, ""},
      {{.curl_code = CURLE_SSL_CONNECT_ERROR}, Transport::kTlsFailed, ""},
      {{.curl_code = CURLE_GOT_NOTHING, .reused = true, .connected = true},
       Transport::kStaleConnection,
       "idle connection"},
      {{.curl_code = CURLE_SEND_ERROR, .reused = true, .connected = true},
       Transport::kStaleConnection,
       "idle connection"},
      {{.curl_code = CURLE_RECV_ERROR, .reused = true, .connected = true},
       Transport::kStaleConnection,
       "idle connection"},
      {{.curl_code = CURLE_RECV_ERROR, .reused = true, .connected = true, .any_byte_back = true},
       Transport::kReset,
       "after 0 bytes"},
      {{.curl_code = CURLE_GOT_NOTHING, .connected = true}, Transport::kReset, "without an answer"},
      {{.curl_code = CURLE_SEND_ERROR, .connected = true},
       Transport::kSendFailed,
       "while the request was sent"},
      {{.curl_code = CURLE_PARTIAL_FILE,
        .connected = true,
        .any_byte_back = true,
        .body_bytes = 3,
        .body_bytes_told = 9},
       Transport::kReset,
       "after 3 of 9 bytes"},
      {{.curl_code = CURLE_RECV_ERROR,
        .connected = true,
        .any_byte_back = true,
        .curl_message = "bad chunk in chunked-encoding"},
       Transport::kBadProtocol,
       "not HTTP"},
      {{.curl_code = CURLE_UNSUPPORTED_PROTOCOL,
        .connected = true,
        .curl_message = "Received HTTP/0.9 when not allowed"},
       Transport::kBadProtocol,
       "not HTTP: Received HTTP/0.9"},
      {{.curl_code = CURLE_WRITE_ERROR, .too_large = true, .response_bytes_max = 1 << 20},
       Transport::kTooLarge,
       "larger than 1.0 MiB"},
      {{.curl_code = CURLE_OUT_OF_MEMORY}, Transport::kConnectFailed, ""},
      {{.curl_code = CURLE_OUT_OF_MEMORY, .connected = true}, Transport::kReset, ""},
  };
  for (const Case& c : cases) {
    const TransportResult result = DescribeTransfer(c.end);
    EXPECT_EQ(result.transport, c.transport) << c.end.curl_code << " " << result.detail;
    EXPECT_THAT(result.detail, HasSubstr(c.detail));
    EXPECT_EQ(result.detail.empty(), c.transport == Transport::kComplete);
  }
}

TEST(CallTimersTest, EachSlotIsReportedOnceAtItsEarliestTime) {
  CallTimers timers;
  EXPECT_TRUE(timers.NextDue().infinite());
  timers.Arm(0, MonotonicTime{30});
  timers.Arm(1, MonotonicTime{20});
  timers.Arm(0, MonotonicTime{10});
  timers.Arm(0, MonotonicTime{25});  // later than what is armed: nothing to do
  EXPECT_EQ(timers.NextDue(), MonotonicTime{10});
  EXPECT_EQ(timers.PopDue(MonotonicTime{9}), -1);
  EXPECT_EQ(timers.PopDue(MonotonicTime{10}), 0);
  EXPECT_EQ(timers.PopDue(MonotonicTime{40}), 1);
  EXPECT_EQ(timers.PopDue(MonotonicTime{40}), -1);
  EXPECT_TRUE(timers.NextDue().infinite());
}

TEST(CallTimersTest, SlotArmedAgainForTheSameTimeIsReportedOnce) {
  CallTimers timers;
  timers.Arm(0, MonotonicTime{10});
  timers.Arm(0, MonotonicTime{5});
  EXPECT_EQ(timers.PopDue(MonotonicTime{5}), 0);
  timers.Arm(0, MonotonicTime{10});
  EXPECT_EQ(timers.PopDue(MonotonicTime{10}), 0);
  EXPECT_EQ(timers.PopDue(MonotonicTime{10}), -1);
}

// Thousands of short calls on one slot leave no trail of timers behind.
TEST(CallTimersTest, ShortCallsShareOneTimer) {
  CallTimers timers;
  for (int64_t call = 0; call < 10000; ++call) timers.Arm(3, MonotonicTime{1000 + call});
  EXPECT_EQ(timers.PopDue(MonotonicTime{1000000}), 3);
  EXPECT_TRUE(timers.NextDue().infinite());
}

TEST(ServerSignsTest, ReadsListsOfModels) {
  const ModelList list = ReadModelList(
      R"({"object":"list","data":[{"id":"a","owned_by":"vllm"},{"id":7},{"id":"b"}]})");
  EXPECT_TRUE(list.readable);
  EXPECT_THAT(list.models, ElementsAre("a", "b"));
  EXPECT_EQ(list.owner, "vllm");
  EXPECT_THAT(ReadModelList(R"([{"id":"c"}])").models, ElementsAre("c"));
  EXPECT_TRUE(ReadModelList(R"({"data":[]})").readable);
  for (const char* other : {"", "<html>", "{}", "7", R"({"data":{}})"})
    EXPECT_FALSE(ReadModelList(other).readable) << other;
}

TEST(ServerSignsTest, RecognizesServers) {
  EXPECT_EQ(ServerFromSigns("vllm", "uvicorn"), "vLLM");
  EXPECT_EQ(ServerFromSigns("sglang", ""), "SGLang");
  EXPECT_EQ(ServerFromSigns("llamacpp", ""), "llama.cpp");
  EXPECT_EQ(ServerFromSigns("", "llama.cpp"), "llama.cpp");
  EXPECT_EQ(ServerFromSigns("tensorrt_llm", ""), "TensorRT-LLM");
  EXPECT_EQ(ServerFromSigns("Triton Inference Server", ""), "Triton");
  EXPECT_EQ(ServerFromSigns("Cerebras", ""), "Cerebras");
  EXPECT_EQ(ServerFromSigns("organization-owner", "nginx"), "");
}

}  // namespace
}  // namespace nightshift
