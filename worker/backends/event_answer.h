// Streams whose events build one document: /v1/messages and /v1/responses. (The chunks of chat and
// completions, which carry pieces of choices, are StreamAssembler's own.)
#ifndef NIGHTSHIFT_WORKER_BACKENDS_EVENT_ANSWER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_EVENT_ANSWER_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/endpoint.h"

namespace nightshift {

// One per stream; not thread-safe.
class EventAnswer {
 public:
  // Null for an endpoint whose streams are not of this form.
  static std::unique_ptr<EventAnswer> For(Endpoint endpoint);
  virtual ~EventAnswer() = default;

  // One event that is no error. Events nobody knows are ignored.
  virtual void Take(const nlohmann::ordered_json& event) = 0;

  // Events with something of the answer itself.
  int64_t pieces() const { return pieces_; }
  // The event that ends an answer has arrived.
  bool done() const { return done_; }
  // Some event told something of the answer.
  virtual bool has_answer() const = 0;
  // The document so far; null when there is none.
  virtual nlohmann::ordered_json Assemble() const = 0;

 protected:
  int64_t pieces_ = 0;
  bool done_ = false;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_EVENT_ANSWER_H_
