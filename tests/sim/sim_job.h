// The jobs that simulated clients hand in. Every byte follows from the token and the index, so that
// whoever meets a request or an answer anywhere can tell whether it is what it should be.
#ifndef NIGHTSHIFT_TESTS_SIM_SIM_JOB_H_
#define NIGHTSHIFT_TESTS_SIM_SIM_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift::sim {

// What a backend makes of a request; written in its body.
enum class Behaviour { kNormal, kRejected, kLong, kPoison };

struct SimJob {
  std::string token;
  v1::JobOptions options;
  bool skip_bad_lines = false;
  std::vector<Behaviour> requests;
  std::vector<bool> bad;  // same length: lines that cannot be used

  v1::SubmittedRequest Request(uint64_t index) const;
  int64_t bad_count() const;
};

std::string RequestBody(const std::string& token, uint64_t index, Behaviour behaviour);
Behaviour BehaviourOf(absl::string_view request_body);
// The answer to a request, which depends on each of its bytes.
std::string AnswerBody(absl::string_view request_body);

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_SIM_JOB_H_
