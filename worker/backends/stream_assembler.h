// A streamed answer put together again: what the server would have sent without streaming.
//
// One assembler per stream; not thread-safe. It takes the frames of /v1/chat/completions and
// /v1/completions in order. Texts and arguments are concatenated, tool calls merged by their index,
// lists of log probabilities joined; of every other member the last value is kept.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_STREAM_ASSEMBLER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_STREAM_ASSEMBLER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"

namespace nightshift {

class StreamAssembler {
 public:
  struct Options {
    Endpoint endpoint = Endpoint::kChatCompletions;
    // A few servers end a stream without [DONE]; for them the finish reasons are enough.
    bool done_required = true;
  };
  explicit StreamAssembler(Options options);
  ~StreamAssembler();

  // Only these endpoints can be streamed and put together again.
  static bool Supports(Endpoint endpoint);

  // One frame of the stream. Frames after [DONE] or after an error are ignored.
  void TakeFrame(absl::string_view event, absl::string_view data);

  // Something of the answer itself has arrived: text, reasoning, a tool call, a refusal.
  bool has_content() const;
  // [DONE] has arrived.
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
