// Server-sent events that follow a batch: its lines as requests finish, its state as it changes.
//
//   event: batch      the batch as GET shows it: at first, at most once a second, and at the end
//   event: result     a line of the output file          event: failure    one of the error file
//   id: PLACE         where to go on: what a client sends as Last-Event-ID when it connects again
//
// Lines come in the order in which requests finish. What comes after the last PLACE that a client
// has seen comes again after it has connected again: nothing is left out, and a few lines may come
// twice. Where too much lies scattered behind for a short PLACE none is sent. After the `batch`
// event of a batch that has ended the stream ends; a comment every 15 s keeps proxies from ending
// it before.
//
// Memory: one chunk of lines per stream. Used by one thread.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCH_EVENTS_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCH_EVENTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "coordinator/http/api_parts.h"
#include "coordinator/http/http_message.h"
#include "coordinator/jobs/output_reader.h"

namespace nightshift {

// At the same time; each has a thread of the server's.
inline constexpr int kEventStreamsMax = 64;

class BatchEvents final : public HttpSource {
 public:
  // InvalidArgument when `place` is none of this batch's; ResourceExhausted with kEventStreamsMax
  // of them. `streams` counts them and, like `parts`, outlives it.
  static absl::StatusOr<std::shared_ptr<BatchEvents>> Create(const ApiParts& parts,
                                                             const Caller& caller,
                                                             const std::string& batch_id,
                                                             absl::string_view place,
                                                             std::atomic<int>& streams);
  ~BatchEvents() override;

  // Waits up to a second for something to tell.
  absl::StatusOr<absl::string_view> Next() override;
  bool MoreToCome() const override { return !ended_; }

 private:
  // One of the two files.
  struct File {
    v1::ReadOutputRequest::Kind kind;
    const char* event;
    std::string cursor;
    std::unique_ptr<OutputReader> reader;
  };

  BatchEvents(const ApiParts& parts, const Caller& caller, std::string batch_id,
              std::atomic<int>& streams)
      : parts_(parts), caller_(caller), batch_id_(std::move(batch_id)), streams_(streams) {}
  absl::Status OpenFiles(const BatchView& view);
  // Fills text_ with what there is to tell now; leaves it empty when that is nothing.
  absl::Status Step();
  absl::Status TakeLines(File& file, bool* at_end);

  const ApiParts& parts_;
  const Caller caller_;
  const std::string batch_id_;
  std::atomic<int>& streams_;
  File files_[2] = {{v1::ReadOutputRequest::RESULTS, "result", "", nullptr},
                    {v1::ReadOutputRequest::ERRORS, "failure", "", nullptr}};
  bool ended_ = false;
  JobNumber job_ = 0;   // once there is one
  uint64_t seen_ = 0;   // its changes, as of the last look
  bool behind_ = true;  // there may be more to tell without another change
  std::string text_;
  std::string told_;  // the batch, as it was told last
  MonotonicTime told_at_;
  MonotonicTime sent_at_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCH_EVENTS_H_
