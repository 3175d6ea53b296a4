#include "worker/backends/call_slot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"

namespace nightshift {
namespace {

// What the parser reads past the end of an answer, so that it need not be moved for it.
constexpr size_t kBodySpare = 64;

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

int64_t Milliseconds(MonotonicTime from, MonotonicTime to) {
  return std::max<int64_t>(0, absl::ToInt64Milliseconds(to - from));
}

bool IsConnecting(Transport transport) {
  return transport == Transport::kConnectFailed || transport == Transport::kResolveFailed ||
         transport == Transport::kTlsFailed;
}

// To a hundredth: what is shown of a mean has no more digits that mean anything.
double RoundedMilliseconds(double milliseconds) { return std::round(milliseconds * 100) / 100; }

curl_off_t InfoNumber(CURL* easy, CURLINFO info) {
  curl_off_t value = 0;
  curl_easy_getinfo(easy, info, &value);
  return value;
}

long InfoLong(CURL* easy, CURLINFO info) {
  long value = 0;
  curl_easy_getinfo(easy, info, &value);
  return value;
}

}  // namespace

CallSlot::CallSlot(int number, int shard, const BackendTarget& target, CallContext& context)
    : number_(number), shard_(shard), target_(target), context_(context), easy_(curl_easy_init()) {
  NIGHTSHIFT_CHECK(easy_ != nullptr, "out of memory");
  CURL* const easy = easy_.get();
  target.Prepare(easy);
  headers_sent_ = target.headers();
  SetOption(easy, CURLOPT_POST, 1L);
  SetOption(easy, CURLOPT_PRIVATE, this);
  SetOption(easy, CURLOPT_ERRORBUFFER, curl_message_);
  SetOption(easy, CURLOPT_WRITEFUNCTION, &CallSlot::OnBody);
  SetOption(easy, CURLOPT_WRITEDATA, this);
  SetOption(easy, CURLOPT_HEADERFUNCTION, &CallSlot::OnHeader);
  SetOption(easy, CURLOPT_HEADERDATA, this);
  SetOption(easy, CURLOPT_NOPROGRESS, 1L);
  SetOption(easy, CURLOPT_PREREQFUNCTION, &CallSlot::OnSending);
  SetOption(easy, CURLOPT_PREREQDATA, this);
  // The one timer that is libcurl's: it also divides the time between a host's addresses.
  SetOption(easy, CURLOPT_CONNECTTIMEOUT_MS,
            std::max<long>(1, absl::ToInt64Milliseconds(target.spec().connect_timeout)));
  // Uvicorn closes after 5 s, others after a minute; an older connection is more likely dead than
  // worth trying.
  SetOption(easy, CURLOPT_MAXAGE_CONN, 20L);
}

bool CallSlot::SetUrl(const std::string& path) {
  CURL* const easy = easy_.get();
  if (path.empty()) {
    if (url_endpoint_ == request_.endpoint) return true;
    CURLU* const url = target_.url(request_.endpoint);
    NIGHTSHIFT_CHECK(url != nullptr, "a request without an endpoint cannot be called");
    SetOption(easy, CURLOPT_CURLU, url);
    url_endpoint_ = request_.endpoint;
    url_path_.clear();
    return true;
  }
  if (url_path_ == path) return true;
  CurlUrlPtr url = target_.UrlOf(path);
  if (url == nullptr) return false;
  SetOption(easy, CURLOPT_CURLU, url.get());
  url_ = std::move(url);
  url_path_ = path;
  url_endpoint_ = Endpoint::kUnspecified;
  return true;
}

bool CallSlot::Begin(CallRequest request, absl::Time wall_now, bool fresh_connection) {
  NIGHTSHIFT_CHECK(!active_, "a slot holds one call at a time");
  active_ = true;
  request_ = std::move(request);
  started_ = context_.now;
  started_unix_ms_ = absl::ToUnixMillis(wall_now);
  timeout_ =
      request_.timeout > absl::ZeroDuration() ? request_.timeout : target_.spec().request_timeout;
  deadline_ = started_ + timeout_;

  sending_ = died_idle_ = withheld_ = sent_ = false;
  bytes_sent_seen_ = 0;
  send_progress_at_ = started_;
  headers_.Clear();
  body_.clear();
  too_large_ = false;
  first_body_bytes_ = true;
  bytes_received_ = 0;
  curl_message_[0] = '\0';

  stream_asked_ = request_.stream && StreamAssembler::Supports(request_.endpoint);
  first_content_at_ = done_at_ = MonotonicTime::Infinite();
  gap_max_ = absl::ZeroDuration();
  pieces_seen_ = 0;
  native_.reset();
  json_lines_ = false;

  absl::StatusOr<BackendTarget::Wire> wire = target_.Translate(request_, stream_asked_);
  if (!wire.ok()) {
    unsent_why_ = std::string(wire.status().message());
    return false;
  }
  request_.body = std::move(wire->body);
  if (wire->native != nullptr) {
    native_ = std::make_unique<NativeReader>(
        *wire->native,
        NativeReader::Call{
            .endpoint = request_.endpoint,
            .model = std::move(wire->model),
            .id = absl::StrFormat("%s-%016x",
                                  request_.endpoint == Endpoint::kCompletions ? "cmpl" : "chatcmpl",
                                  context_.random.Next()),
            .created_unix = absl::ToUnixSeconds(wall_now)});
    json_lines_ = stream_asked_ && wire->native->json_lines();
  }
  if (!SetUrl(wire->path)) {
    unsent_why_ = "the model's name makes no path";
    return false;
  }

  CURL* const easy = easy_.get();
  SetOption(easy, CURLOPT_POSTFIELDS, request_.body.data());
  SetOption(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
  if (headers_sent_ != target_.headers()) {
    headers_sent_ = target_.headers();
    SetOption(easy, CURLOPT_HTTPHEADER, headers_sent_.get());
  }
  if (fresh_connection_ != fresh_connection) {
    SetOption(easy, CURLOPT_FRESH_CONNECT, fresh_connection ? 1L : 0L);
    fresh_connection_ = fresh_connection;
  }
  context_.timers.Arm(number_, NextDue());
  return true;
}

// The connection is there; the request goes out when this returns.
int CallSlot::OnSending(void* slot, char*, char*, int, int) {
  CallSlot& self = *static_cast<CallSlot*>(slot);
  // libcurl would send again by itself, up to five times, when a connection of its pool dies before
  // any byte has come back; how often a backend is asked is the runner's to decide.
  self.died_idle_ = std::exchange(self.sending_, true);
  if (self.died_idle_) return CURL_PREREQFUNC_ABORT;
  const CallContext& context = self.context_;
  self.withheld_ = self.started_ < context.stood_still_until ||
                   context.clock->Now() - context.turned_at > kStandstillMin;
  return self.withheld_ ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

// --- what comes back --------------------------------------------------------------------------

size_t CallSlot::OnHeader(char* bytes, size_t size, size_t count, void* slot) {
  static_cast<CallSlot*>(slot)->headers_.TakeLine(absl::string_view(bytes, size * count));
  return size * count;
}

size_t CallSlot::OnBody(char* bytes, size_t size, size_t count, void* slot) {
  // Any other number than what was given ends the transfer.
  return static_cast<CallSlot*>(slot)->TakeBody(absl::string_view(bytes, size * count))
             ? size * count
             : CURL_WRITEFUNC_ERROR;
}

void CallSlot::BeginBody(absl::string_view first_bytes) {
  first_body_bytes_ = false;
  first_byte_at_ = context_.now;
  const bool looks_like_events =
      !headers_.has_content_type() &&
      (first_bytes[0] == 'd' || first_bytes[0] == 'e' || first_bytes[0] == ':');
  const bool lines = json_lines_ && InfoLong(easy_.get(), CURLINFO_RESPONSE_CODE) / 100 == 2;
  if (stream_asked_ && (headers_.is_event_stream() || looks_like_events || lines)) {
    json_lines_ = json_lines_ && !headers_.is_event_stream();
    assembler_ = std::make_unique<StreamAssembler>(StreamAssembler::Options{
        .endpoint = request_.endpoint,
        .end = native_ != nullptr ? native_->dialect().stream_end() : target_.kind().stream_end});
    sse_ = SseParser();
    lines_ = JsonLinesParser();
    return;
  }
  const int64_t told = headers_.content_length();
  if (told > context_.response_bytes_max) {
    too_large_ = true;
  } else if (told > 0) {
    body_.reserve(told + kBodySpare);
  }
}

bool CallSlot::TakeBody(absl::string_view bytes) {
  if (bytes.empty()) return true;
  if (first_body_bytes_) BeginBody(bytes);
  bytes_received_ += static_cast<int64_t>(bytes.size());
  if (assembler_ != nullptr) {
    too_large_ = too_large_ || !TakeStreamed(bytes);
  } else if (bytes_received_ > context_.response_bytes_max) {
    too_large_ = true;
  } else if (!too_large_) {
    body_.append(bytes.data(), bytes.size());
  }
  return !too_large_;
}

void CallSlot::TakeFrame(absl::string_view event, absl::string_view data) {
  if (native_ != nullptr) {
    native_->TakeFrame(event, data, *assembler_);
  } else {
    assembler_->TakeFrame(event, data);
  }
}

void CallSlot::NotePieces() {
  const int64_t pieces = assembler_->pieces();
  if (pieces == pieces_seen_) return;
  if (first_content_at_.infinite()) {
    first_content_at_ = context_.now;
  } else {
    gap_max_ = std::max(gap_max_, context_.now - last_content_at_);
  }
  last_content_at_ = context_.now;
  pieces_seen_ = pieces;
}

bool CallSlot::TakeStreamed(absl::string_view bytes) {
  last_byte_at_ = context_.now;
  const auto on_frame = [this](absl::string_view event, absl::string_view data) {
    TakeFrame(event, data);
  };
  const bool within_bounds =
      json_lines_ ? lines_.Push(bytes, on_frame) : sse_.Push(bytes, on_frame);
  NotePieces();
  if (done_at_.infinite() && (assembler_->done() || assembler_->failed())) done_at_ = context_.now;
  context_.timers.Arm(number_, NextDue());
  return within_bounds && assembler_->bytes_kept() <= context_.response_bytes_max &&
         bytes_received_ <= context_.response_bytes_max * kStreamOverheadMax;
}

// --- timers -----------------------------------------------------------------------------------

MonotonicTime CallSlot::NextDue() const {
  MonotonicTime due = deadline_;
  if (!sent_ && bytes_received_ == 0) due = std::min(due, context_.now + kWriteCheckInterval);
  if (assembler_ != nullptr) {
    due = std::min(
        due, done_at_.infinite() ? last_byte_at_ + kStreamIdleMax : done_at_ + kStreamTailMax);
  }
  return due;
}

bool CallSlot::SendingHasStalled(Expiry& expiry) {
  const int64_t size = static_cast<int64_t>(request_.body.size());
  const int64_t bytes_sent = InfoNumber(easy_.get(), CURLINFO_SIZE_UPLOAD_T);
  if (bytes_sent >= size || headers_.any()) {
    sent_ = true;
    return false;
  }
  const bool connected = InfoNumber(easy_.get(), CURLINFO_PRETRANSFER_TIME_T) > 0;
  if (!connected || bytes_sent > bytes_sent_seen_) {
    bytes_sent_seen_ = bytes_sent;
    send_progress_at_ = context_.now;
    return false;
  }
  if (context_.now - send_progress_at_ < kWriteStallMax) return false;
  expiry = {Transport::kSendFailed,
            absl::StrCat("the server took no byte of the request for ", InSeconds(kWriteStallMax),
                         " (", bytes_sent, " of ", size, " are sent)")};
  return true;
}

bool CallSlot::Expired(Expiry& expiry) {
  if (!active_) return false;
  const MonotonicTime now = context_.now;
  if (now >= done_at_ + kStreamTailMax) {
    expiry = {Transport::kComplete, ""};
    return true;
  }
  if (now >= deadline_) {
    expiry = {Transport::kTimeout,
              bytes_received_ == 0
                  ? absl::StrCat("no answer within ", InSeconds(timeout_))
                  : absl::StrCat("the answer was not whole within ", InSeconds(timeout_))};
    return true;
  }
  if (assembler_ != nullptr && done_at_.infinite() && now >= last_byte_at_ + kStreamIdleMax) {
    expiry = {Transport::kTimeout, absl::StrCat("no byte for ", InSeconds(kStreamIdleMax),
                                                " in the middle of the stream")};
    return true;
  }
  if (!sent_ && bytes_received_ == 0 && SendingHasStalled(expiry)) return true;
  context_.timers.Arm(number_, NextDue());
  return false;
}

// --- the end ----------------------------------------------------------------------------------

CallOutcome CallSlot::Outcome() const {
  CallOutcome outcome;
  outcome.id = request_.id;
  outcome.timing.set_started_unix_ms(started_unix_ms_);
  outcome.timing.set_ttft_ms(-1);
  outcome.timing.set_latency_ms(Milliseconds(started_, context_.now));
  return outcome;
}

TransferEnd CallSlot::DescribeEnd(CURLcode code) const {
  TransferEnd end;
  end.curl_code = code;
  end.os_error = InfoLong(easy_.get(), CURLINFO_OS_ERRNO);
  end.connected = InfoNumber(easy_.get(), CURLINFO_PRETRANSFER_TIME_T) > 0;
  end.reused = end.connected && InfoLong(easy_.get(), CURLINFO_NUM_CONNECTS) == 0;
  end.any_byte_back = headers_.any();
  end.too_large = too_large_;
  end.body_bytes = bytes_received_;
  end.body_bytes_told = headers_.content_length();
  end.curl_message = curl_message_;
  end.connect_timeout = target_.spec().connect_timeout;
  end.response_bytes_max = context_.response_bytes_max;
  return end;
}

CallOutcome CallSlot::TakeFinished(CURLcode code, absl::Time wall_now) {
  CallOutcome outcome = Outcome();
  // After the last frame of a stream nothing can be missing any more.
  const bool stream_over = !done_at_.infinite() && !too_large_;
  if (withheld_) {
    outcome.transport = Transport::kAborted;
    outcome.transport_detail = "this worker did not run for a while just before it was sent";
  } else if (died_idle_) {
    outcome.transport = Transport::kStaleConnection;
    outcome.transport_detail = kStaleConnectionWords;
  } else if (code == CURLE_OK || stream_over) {
    outcome.transport = Transport::kComplete;
  } else {
    TransportResult result = DescribeTransfer(DescribeEnd(code));
    // It had a connection once, which died; what failed is libcurl's own try to make another.
    if (sending_ && IsConnecting(result.transport)) {
      result = {Transport::kStaleConnection, kStaleConnectionWords};
    }
    outcome.transport = result.transport;
    outcome.transport_detail = std::move(result.detail);
  }
  ReadAnswer(outcome, wall_now);
  Drop();
  return outcome;
}

CallOutcome CallSlot::TakeExpired(Expiry expiry, absl::Time wall_now) {
  CallOutcome outcome = Outcome();
  outcome.transport = expiry.transport;
  outcome.transport_detail = std::move(expiry.detail);
  ReadAnswer(outcome, wall_now);
  Drop();
  return outcome;
}

CallOutcome CallSlot::TakeUnsent() {
  CallOutcome outcome = Outcome();
  outcome.transport = Transport::kNotSent;
  outcome.transport_detail = std::move(unsent_why_);
  Drop();
  return outcome;
}

CallOutcome CallSlot::TakeAborted() {
  CallOutcome outcome = Outcome();
  outcome.transport = Transport::kAborted;
  outcome.transport_detail = "given up by this worker";
  Drop();
  return outcome;
}

void CallSlot::Drop() {
  active_ = false;
  request_ = CallRequest();
  body_ = std::string();
  assembler_.reset();
  native_.reset();
}

AnswerFacts CallSlot::ReadStream(CallOutcome& outcome) {
  if (json_lines_ && outcome.transport == Transport::kComplete) {
    lines_.Finish(
        [this](absl::string_view event, absl::string_view data) { TakeFrame(event, data); });
    NotePieces();
  }
  outcome.body = assembler_->Assemble();
  outcome.incomplete = assembler_->Incomplete();
  if (assembler_->error_frame().empty()) {
    return context_.reader.Read(request_.endpoint, outcome.http_status, outcome.body);
  }
  // What had come before the error is kept, and the error's own words beside it.
  std::string error = assembler_->error_frame();
  constexpr int kAnyFailure = 500;
  const AnswerFacts told = context_.reader.Read(request_.endpoint, kAnyFailure, error);
  if (outcome.body.empty()) outcome.body = std::move(error);
  AnswerFacts facts = context_.reader.Read(request_.endpoint, outcome.http_status, outcome.body);
  facts.error_message = told.error_message;
  facts.error_type = told.error_type;
  facts.error_code = told.error_code;
  if (!told.error_message.empty()) absl::StrAppend(&outcome.incomplete, ": ", told.error_message);
  return facts;
}

void CallSlot::ReadAnswer(CallOutcome& outcome, absl::Time wall_now) {
  if (!headers_.any()) return;
  outcome.http_status = static_cast<int>(InfoLong(easy_.get(), CURLINFO_RESPONSE_CODE));
  outcome.request_id = headers_.request_id();
  outcome.retry_after = headers_.RetryAfter(wall_now, outcome.http_status == 429);
  outcome.rate_limits = headers_.RateLimits(wall_now);
  const bool whole = outcome.transport == Transport::kComplete;

  AnswerFacts facts;
  if (assembler_ != nullptr) {
    facts = ReadStream(outcome);
    if (!whole && outcome.incomplete.empty()) outcome.incomplete = outcome.transport_detail;
  } else if (whole) {
    outcome.body = std::move(body_);
    // A byte order mark is no part of a JSON document, though some servers of Windows send one.
    if (absl::StartsWith(outcome.body, kByteOrderMark)) {
      outcome.body.erase(0, kByteOrderMark.size());
    }
    if (native_ != nullptr && outcome.http_status / 100 == 2) {
      if (std::string told = native_->Whole(outcome.body); !told.empty())
        outcome.body = std::move(told);
    }
    facts = context_.reader.Read(request_.endpoint, outcome.http_status, outcome.body);
  } else {
    return;  // half a document says nothing
  }
  if (outcome.incomplete.empty()) outcome.incomplete = std::move(facts.incomplete);
  outcome.body_is_partial =
      pieces_seen_ > 0 && !outcome.incomplete.empty() && outcome.body.size() <= kPartialBytesMax;
  outcome.body_is_json = facts.is_json;
  if (facts.is_json) FoldToOneLine(outcome.body);
  outcome.finish_reason = std::move(facts.finish_reason);
  outcome.has_answer = facts.has_answer;
  outcome.empty_answer = facts.empty_answer;
  outcome.refused = facts.refused;
  outcome.repetitive = facts.repetitive;
  outcome.error_message = std::move(facts.error_message);
  outcome.error_type = std::move(facts.error_type);
  outcome.error_code = std::move(facts.error_code);
  if (outcome.error_message.empty() && outcome.http_status >= 300 && outcome.http_status < 400 &&
      !headers_.location().empty()) {
    outcome.error_message = absl::StrCat("the server redirects to ", headers_.location(),
                                         "; use that address for the backend");
  }
  if (outcome.request_id.empty())
    outcome.request_id = absl::StrFormat("req_%016x", context_.random.Next());
  SetTiming(facts, outcome.timing);
  SetUsage(facts, outcome.usage);
}

void CallSlot::SetTiming(const AnswerFacts& facts, v1::AttemptTiming& timing) const {
  if (!first_content_at_.infinite()) {
    timing.set_ttft_ms(Milliseconds(started_, first_content_at_));
  } else if (facts.ttft_ms >= 0) {
    timing.set_ttft_ms(static_cast<int64_t>(facts.ttft_ms));
  }
  if (pieces_seen_ > 1) {
    timing.set_gap_mean_ms(RoundedMilliseconds(
        absl::ToDoubleMilliseconds(last_content_at_ - first_content_at_) / (pieces_seen_ - 1)));
    // Rounded up, so that it is never below the mean.
    timing.set_gap_max_ms(absl::ToInt64Milliseconds(absl::Ceil(gap_max_, absl::Milliseconds(1))));
  }
  if (InfoLong(easy_.get(), CURLINFO_NUM_CONNECTS) > 0) {
    constexpr int kMicrosecondsPerMillisecond = 1000;
    timing.set_connect_ms(InfoNumber(easy_.get(), CURLINFO_PRETRANSFER_TIME_T) /
                          kMicrosecondsPerMillisecond);
  }
  if (!first_body_bytes_) timing.set_first_byte_ms(Milliseconds(started_, first_byte_at_));
  const ServerTimes& server =
      headers_.server_times().known() ? headers_.server_times() : facts.server;
  if (server.queue_ms >= 0) timing.set_server_queue_ms(RoundedMilliseconds(server.queue_ms));
  if (server.prompt_ms >= 0) timing.set_server_prompt_ms(RoundedMilliseconds(server.prompt_ms));
  if (server.completion_ms >= 0)
    timing.set_server_completion_ms(RoundedMilliseconds(server.completion_ms));
}

void CallSlot::SetUsage(const AnswerFacts& facts, v1::Usage& usage) const {
  int64_t prompt_tokens = facts.prompt_tokens;
  int64_t completion_tokens = facts.completion_tokens;
  if (!facts.usage_known) {
    prompt_tokens = headers_.prompt_tokens();
    completion_tokens = headers_.completion_tokens();
    if (prompt_tokens < 0 || completion_tokens < 0) return;
  }
  usage.set_known(true);
  usage.set_prompt_tokens(prompt_tokens);
  usage.set_completion_tokens(completion_tokens);
  usage.set_cached_tokens(facts.cached_tokens);
  usage.set_reasoning_tokens(facts.reasoning_tokens);
  const double cost = target_.Cost(prompt_tokens, completion_tokens);
  if (cost < 0) return;
  usage.set_cost_known(true);
  usage.set_cost_usd(cost);
}

}  // namespace nightshift
