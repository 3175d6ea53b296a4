// One call's answer in a server's own form, told again as chunks of OpenAI's streams. A whole
// answer is one chunk: so streamed or not, the same assembler puts the same document together.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_KINDS_NATIVE_READER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_KINDS_NATIVE_READER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "worker/backends/kinds/native_dialect.h"
#include "worker/backends/stream_assembler.h"

namespace nightshift {

// One per call; not thread-safe. The dialect must outlive it.
class NativeReader {
 public:
  struct Call {
    Endpoint endpoint = Endpoint::kChatCompletions;
    std::string model;         // as the request named it
    std::string id;            // for servers that give their answers none
    int64_t created_unix = 0;  // seconds
  };
  NativeReader(const NativeDialect& dialect, Call call);

  const NativeDialect& dialect() const { return dialect_; }

  // Hands a frame of a stream to `assembler`, in OpenAI's form where it is an answer, as it came
  // where it is an error or nothing known.
  void TakeFrame(absl::string_view event, absl::string_view data, StreamAssembler& assembler);

  // A whole answer in OpenAI's form; empty when it is not one of this server's (an error, say).
  std::string Whole(absl::string_view body);

 private:
  std::string Chunk(NativeAnswer& answer);

  const NativeDialect& dialect_;
  const Call call_;
  size_t text_seen_ = 0;  // of a dialect whose frames carry all the text so far
  bool tools_called_ = false;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_KINDS_NATIVE_READER_H_
