// A leased request while the worker holds it, and the list that a backend buffers them in.
#ifndef NIGHTSHIFT_WORKER_CORE_HELD_REQUEST_H_
#define NIGHTSHIFT_WORKER_CORE_HELD_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "worker/core/call.h"
#include "worker/core/pacer.h"
#include "worker/core/request_key.h"
#include "worker/core/second_try.h"

namespace nightshift {

struct HeldRequest {
  enum class Place {
    kBuffered,   // in its backend's list
    kInFlight,   // `call` is under way
    kWaiting,    // in the retry queue until `due`; holds no slot
    kDoubted,    // it has failed, and it is not known yet whose fault that was; holds no slot
    kSuspected,  // in its backend's list of suspects, until it is its turn
  };

  RequestKey key;
  int backend = 0;
  int attempt = 0;  // as the lease said
  int run = 0;
  int priority = 0;  // higher ones are started first
  Endpoint endpoint = Endpoint::kUnspecified;
  bool stream = false;
  bool retried_now = false;  // a stale connection has been forgiven once
  int waits = 0;             // how often it was put off, for the backoff
  int server_timeouts = 0;   // of those, because the server gave up on it
  bool sized = false;        // `size` has been read
  Pacer::Size size;
  Place place = Place::kBuffered;
  absl::Duration timeout = absl::ZeroDuration();
  CallId call = 0;
  MonotonicTime due;
  uint64_t order = 0;  // of arrival: makes the retry queue's order the same in every run
  std::string body;    // kept while in flight, since it may have to be sent again

  SecondTries second_tries;
  // An answer that has come and is asked for again: the outcome, if nothing better comes.
  std::unique_ptr<CallOutcome> kept;

  HeldRequest* previous = nullptr;  // of RequestList
  HeldRequest* next = nullptr;
};

// A doubly linked list through the requests themselves, so that a revoked one leaves in constant
// time: higher priorities first. Owns nothing. Putting one in costs a step for each request of
// another priority that it has to pass: few, since lower ones wait only while higher ones are
// fresh.
class RequestList {
 public:
  bool empty() const { return first_ == nullptr; }
  int size() const { return size_; }
  HeldRequest* first() const { return first_; }
  HeldRequest* last() const { return last_; }

  // Behind all of its priority.
  void PushBack(HeldRequest* request) {
    HeldRequest* before = last_;
    while (before != nullptr && before->priority < request->priority) before = before->previous;
    Insert(request, before, before == nullptr ? first_ : before->next);
  }
  // In front of all of its priority.
  void PushFront(HeldRequest* request) {
    HeldRequest* after = first_;
    while (after != nullptr && after->priority > request->priority) after = after->next;
    Insert(request, after == nullptr ? last_ : after->previous, after);
  }
  void Remove(HeldRequest* request) {
    (request->previous != nullptr ? request->previous->next : first_) = request->next;
    (request->next != nullptr ? request->next->previous : last_) = request->previous;
    request->previous = request->next = nullptr;
    --size_;
  }
  HeldRequest* PopFront() {
    NIGHTSHIFT_CHECK(first_ != nullptr, "the list is empty");
    HeldRequest* request = first_;
    Remove(request);
    return request;
  }

 private:
  void Insert(HeldRequest* request, HeldRequest* before, HeldRequest* after) {
    request->previous = before;
    request->next = after;
    (before != nullptr ? before->next : first_) = request;
    (after != nullptr ? after->previous : last_) = request;
    ++size_;
  }

  HeldRequest* first_ = nullptr;
  HeldRequest* last_ = nullptr;
  int size_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_HELD_REQUEST_H_
