// A streamed answer put together again: what the server would have sent without streaming.
//
// One assembler per stream; not thread-safe. It takes the frames in order. Of /v1/chat/completions
// and /v1/completions texts and arguments are concatenated, tool calls merged by their index, lists
// of log probabilities joined; of every other member the last value is kept. The events of
// /v1/messages and /v1/responses are EventAnswer's.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_STREAM_ASSEMBLER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_STREAM_ASSEMBLER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"

namespace nightshift {

// By which sign a stream is known to be whole.
enum class StreamEnd {
  kDone,           // [DONE], or the last event of its kind
  kFinishReason,   // as good as that: every choice has told why it ended
  kEndOfResponse,  // nothing: the response ended as HTTP has it
};

class StreamAssembler {
 public:
  struct Options {
    Endpoint endpoint = Endpoint::kChatCompletions;
    StreamEnd end = StreamEnd::kDone;
  };
  explicit StreamAssembler(Options options);
  ~StreamAssembler();

  // Only these endpoints can be streamed and put together again.
  static bool Supports(Endpoint endpoint);

  // One frame of the stream. Frames after [DONE] or after an error are ignored.
  void TakeFrame(absl::string_view event, absl::string_view data);

  // Frames to come may hold marks for parts of characters (lenient_json.h).
  void ExpectMarks();

  // Frames with something of the answer itself: text, reasoning, a tool call, a refusal.
  int64_t pieces() const;
  // [DONE] has arrived, or the last event of its kind.
  bool done() const;
  // An error frame has arrived, or one that cannot be read.
  bool failed() const;
  // Roughly the bytes kept so far.
  int64_t bytes_kept() const;

  // The frame that told of an error, as it came; empty = none.
  const std::string& error_frame() const;

  // Why the answer is not whole, if the stream ended here; empty = it is whole.
  std::string Incomplete() const;

  // The answer so far, as one JSON document on one line; empty when no frame told anything.
  std::string Assemble() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_STREAM_ASSEMBLER_H_
