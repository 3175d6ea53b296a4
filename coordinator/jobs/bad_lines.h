// The lines of an input that cannot be used: all are counted, the first ones kept.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_BAD_LINES_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_BAD_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// Not thread-safe. Memory does not grow beyond `kept_max` lines.
class BadLineList {
 public:
  explicit BadLineList(size_t kept_max) : kept_max_(kept_max) {}

  void Add(v1::BadLine line);
  int64_t count() const { return count_; }
  // Those with the lowest line numbers, in order. Empties the list (not the count).
  std::vector<v1::BadLine> Take();

 private:
  const size_t kept_max_;
  int64_t count_ = 0;
  std::vector<v1::BadLine> heap_;  // the highest line number in front
};

// "body.messages: expected a list, found a string", or the reason alone.
std::string BadLineText(const v1::BadLine& line);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_BAD_LINES_H_
