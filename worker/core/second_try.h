// Answers that have come and are no good: cut off at their token limit, or without text. The job's
// options say whether such an answer is kept, asked for again, or a failure. Pure.
//
// Asking again is bounded: once with a higher limit for an answer that was cut off, twice for an
// empty one. These calls are no attempts, since nothing has failed, and are counted apart. The
// runner keeps the first answer meanwhile, so that what was paid for is never lost to a second call
// that fails.
#ifndef NIGHTSHIFT_WORKER_CORE_SECOND_TRY_H_
#define NIGHTSHIFT_WORKER_CORE_SECOND_TRY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "nightshift/v1/types.pb.h"
#include "worker/core/call.h"

namespace nightshift {

inline constexpr int kTruncatedRetriesMax = 1;
inline constexpr int kEmptyRetriesMax = 2;
// The limit is raised by so much, and to no more than this many tokens.
inline constexpr int64_t kCeilingFactor = 4;
inline constexpr int64_t kCeilingMax = 65536;

// What a job wants, and what has been done about one request.
struct SecondTries {
  v1::AnswerPolicy on_truncated = v1::ANSWER_POLICY_KEEP;
  v1::AnswerPolicy on_empty = v1::ANSWER_POLICY_KEEP;
  int truncated = 0;
  int empty = 0;
};

enum class AnswerVerdict {
  kKeep,
  kAskForMore,   // again, with a higher limit
  kAskTheSame,   // again, since there was no text
  kTooShort,     // a failure: cut off
  kNothingSaid,  // a failure: no text
};

// The words of the various APIs for "it would have gone on".
bool IsTruncation(absl::string_view finish_reason);

// `outcome` is a whole answer.
AnswerVerdict JudgeAnswer(const SecondTries& tries, const CallOutcome& outcome);

// The body with its token limit raised, all other bytes as they were. Where it has none, the limit
// is reckoned from the tokens that the answer had. Nothing when it cannot be raised: the endpoint
// knows no limit, or it is at the bound.
std::optional<std::string> RaiseCeiling(Endpoint endpoint, absl::string_view body,
                                        const v1::Usage& usage);

// Both calls were paid for.
void AddUsage(const v1::Usage& more, v1::Usage* usage);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_SECOND_TRY_H_
