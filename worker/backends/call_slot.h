// One HTTP call after another on one pooled libcurl handle: what is sent, what has come back so
// far, which of its timers is due. The event loop owns the slots and moves the transfers.
//
// A slot's life: idle → Begin → (libcurl's callbacks gather the answer) → Take… → idle. It keeps
// its handle, options and buffers throughout: making a handle costs as much as a call.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_CALL_SLOT_H_
#define NIGHTSHIFT_WORKER_BACKENDS_CALL_SLOT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "worker/backends/answer_reader.h"
#include "worker/backends/backend_target.h"
#include "worker/backends/call_timers.h"
#include "worker/backends/curl_handles.h"
#include "worker/backends/json_lines_parser.h"
#include "worker/backends/kinds/native_reader.h"
#include "worker/backends/response_headers.h"
#include "worker/backends/sse_parser.h"
#include "worker/backends/stream_assembler.h"
#include "worker/backends/transfer_end.h"
#include "worker/core/call.h"

namespace nightshift {

// A request of which no byte has left for this long is cut.
inline constexpr absl::Duration kWriteStallMax = absl::Seconds(60);
// How often the sending of a large or slow request is looked at.
inline constexpr absl::Duration kWriteCheckInterval = absl::Seconds(10);
// Between two reads of a stream; servers send signs of life far more often.
inline constexpr absl::Duration kStreamIdleMax = absl::Seconds(120);
// After [DONE] the answer is whole; a server that does not end the response then is cut off.
inline constexpr absl::Duration kStreamTailMax = absl::Seconds(5);
// A stream's frames are many times larger than the text in them.
inline constexpr int kStreamOverheadMax = 16;

// What had come of a stream that broke off is kept for a person up to this size, else dropped.
inline constexpr size_t kPartialBytesMax = size_t{1} << 20;

// A loop that has calls turns at least this often; when it has not for `kStandstillMin`, the
// process was stopped, or starved. What had been decided before and not been sent may be another
// worker's by now, and is not sent.
inline constexpr absl::Duration kTurnMax = absl::Seconds(1);
inline constexpr absl::Duration kStandstillMin = absl::Seconds(2);

// What the slots of one loop have in common; outlives them.
struct CallContext {
  Clock* clock = nullptr;
  // Time of the event that is being handled.
  MonotonicTime now;
  CallTimers timers;
  AnswerReader reader;
  Random random;  // for names of answers to which the backend gave none
  int64_t response_bytes_max = 0;
  MonotonicTime turned_at;                                     // when the loop last read the clock
  MonotonicTime stood_still_until = MonotonicTime{INT64_MIN};  // the end of the last standstill
};

class CallSlot {
 public:
  // `number` is the slot's name in context.timers.
  CallSlot(int number, int shard, const BackendTarget& target, CallContext& context);
  CallSlot(const CallSlot&) = delete;
  CallSlot& operator=(const CallSlot&) = delete;

  CURL* easy() const { return easy_.get(); }
  int number() const { return number_; }
  int shard() const { return shard_; }
  bool active() const { return active_; }
  const CallRequest& request() const { return request_; }

  // Makes the handle ready to be added to a multi handle. False when this backend cannot be asked
  // that: nothing is to be sent, and TakeUnsent has the outcome.
  bool Begin(CallRequest request, absl::Time wall_now, bool fresh_connection);

  // Called when the slot's timer has come up. True when a deadline has passed: `transport` and
  // `detail` then say which. Otherwise the timer is armed again.
  struct Expiry {
    Transport transport;
    std::string detail;
  };
  bool Expired(Expiry& expiry);

  // The call is over, in one of four ways; the slot is idle afterwards. The handle must be out of
  // the multi handle; one that was never sent has not been in it.
  CallOutcome TakeFinished(CURLcode code, absl::Time wall_now);
  CallOutcome TakeExpired(Expiry expiry, absl::Time wall_now);
  CallOutcome TakeAborted();
  CallOutcome TakeUnsent();
  // Drops the call without an outcome.
  void Drop();

 private:
  static size_t OnBody(char* bytes, size_t size, size_t count, void* slot);
  static size_t OnHeader(char* bytes, size_t size, size_t count, void* slot);
  static int OnSending(void* slot, char*, char*, int, int);

  // Both return false when the answer has passed a bound.
  bool TakeBody(absl::string_view bytes);
  bool TakeStreamed(absl::string_view bytes);
  void TakeFrame(absl::string_view event, absl::string_view data);
  void NotePieces();
  void BeginBody(absl::string_view first_bytes);
  // Points the handle at the request's URL; false when it makes none.
  bool SetUrl(const std::string& path);
  MonotonicTime NextDue() const;
  bool SendingHasStalled(Expiry& expiry);

  // An outcome with everything but transport and answer.
  CallOutcome Outcome() const;
  TransferEnd DescribeEnd(CURLcode code) const;
  // Fills in what the headers and the body say.
  void ReadAnswer(CallOutcome& outcome, absl::Time wall_now);
  void SetTiming(const AnswerFacts& facts, v1::AttemptTiming& timing) const;
  void SetUsage(const AnswerFacts& facts, v1::Usage& usage) const;
  // The same for an event stream: puts the answer together first.
  AnswerFacts ReadStream(CallOutcome& outcome);

  const int number_;
  const int shard_;
  const BackendTarget& target_;
  CallContext& context_;
  BackendTarget::Headers headers_sent_;  // what the handle is set to; outlives it
  CurlEasyPtr easy_;
  char curl_message_[CURL_ERROR_SIZE];
  // What the handle's URL is set for: an endpoint, or else a path of its own.
  Endpoint url_endpoint_ = Endpoint::kUnspecified;
  std::string url_path_;
  CurlUrlPtr url_;
  bool fresh_connection_ = false;  // what the handle's option is set to

  bool active_ = false;
  CallRequest request_;
  MonotonicTime started_;
  MonotonicTime deadline_;
  absl::Duration timeout_;
  int64_t started_unix_ms_ = 0;

  // Sending.
  bool sending_ = false;    // a connection was there, and the request was given to it
  bool died_idle_ = false;  // … which was dead; nothing has come back
  bool sent_ = false;
  bool withheld_ = false;  // the loop stood still between the decision and the sending
  int64_t bytes_sent_seen_ = 0;
  MonotonicTime send_progress_at_;

  // Receiving.
  ResponseHeaders headers_;
  std::string body_;
  bool too_large_ = false;
  bool first_body_bytes_ = true;
  MonotonicTime first_byte_at_;
  MonotonicTime last_byte_at_;
  int64_t bytes_received_ = 0;

  // Streaming; null when the answer comes whole.
  bool stream_asked_ = false;
  std::unique_ptr<StreamAssembler> assembler_;
  SseParser sse_;
  JsonLinesParser lines_;
  MonotonicTime first_content_at_ = MonotonicTime::Infinite();
  MonotonicTime last_content_at_;
  absl::Duration gap_max_;
  int64_t pieces_seen_ = 0;
  MonotonicTime done_at_ = MonotonicTime::Infinite();

  // Of a server that is spoken to in its own protocol; null = OpenAI's.
  std::unique_ptr<NativeReader> native_;
  bool json_lines_ = false;
  std::string unsent_why_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_CALL_SLOT_H_
