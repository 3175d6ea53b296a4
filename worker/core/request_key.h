// The identity of a request as a map key. The wire's RequestKey has no hash and costs a heap object
// per copy.
#ifndef NIGHTSHIFT_WORKER_CORE_REQUEST_KEY_H_
#define NIGHTSHIFT_WORKER_CORE_REQUEST_KEY_H_

#include <cstdint>
#include <utility>

#include "nightshift/v1/worker.pb.h"

namespace nightshift {

struct RequestKey {
  uint64_t job = 0;
  uint64_t index = 0;

  static RequestKey From(const v1::RequestKey& key) { return {key.job(), key.index()}; }
  void To(v1::RequestKey* key) const {
    key->set_job(job);
    key->set_index(index);
  }

  friend bool operator==(const RequestKey&, const RequestKey&) = default;
  friend auto operator<=>(const RequestKey&, const RequestKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RequestKey& key) {
    return H::combine(std::move(h), key.job, key.index);
  }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_REQUEST_KEY_H_
