// How much a request may take, read from its body: what a rate limit in tokens charges it by.
#ifndef NIGHTSHIFT_WORKER_CORE_REQUEST_SIZE_H_
#define NIGHTSHIFT_WORKER_CORE_REQUEST_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"

namespace nightshift {

struct RequestSize {
  std::string model;        // empty: names none
  int64_t bytes = 0;        // of the body
  int64_t answer_max = -1;  // tokens of all the answers it asks for; -1: it sets no maximum
};

// Looks at the top level of the body only. Of a body that is no JSON object nothing but the bytes
// is known. Endpoints that generate nothing have an `answer_max` of 0.
RequestSize ReadRequestSize(Endpoint endpoint, absl::string_view body);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_REQUEST_SIZE_H_
