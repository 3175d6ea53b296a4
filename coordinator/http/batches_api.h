// /v1/batches: creation, state, lists, cancellation; with pause and resume, which the Batch API
// does not have. Every job is a batch.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCHES_API_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCHES_API_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "coordinator/http/api_parts.h"
#include "coordinator/http/http_message.h"

namespace nightshift {

// Of the body that creates a batch; a longer one is answered with 413.
inline constexpr int64_t kBatchRequestBytesMax = int64_t{1} << 20;

class BatchesApi {
 public:
  // The parts must outlive it.
  explicit BatchesApi(const ApiParts& parts) : parts_(parts) {}

  HttpReply Create(HttpRequest& request) const;
  HttpReply List(const HttpRequest& request) const;
  HttpReply Get(const HttpRequest& request, const std::string& id) const;
  HttpReply Cancel(const HttpRequest& request, const std::string& id) const;
  // Lines of the output (or, with `kind=error`, error) file as far as they are there, in input
  // order and while the batch runs: at most `limit`, from where `after` says that an earlier reply
  // ended.
  HttpReply Results(const HttpRequest& request, const std::string& id) const;
  // Follows it as a stream of events (batch_events.h).
  HttpReply Events(const HttpRequest& request, const std::string& id) const;
  // kPause or kResume.
  HttpReply Control(const HttpRequest& request, const std::string& id, JobCommand::Kind kind) const;

 private:
  absl::Status CheckOpenJobs(const Caller& caller) const;

  const ApiParts& parts_;
  mutable std::atomic<int> event_streams_{0};
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCHES_API_H_
