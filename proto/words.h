// The enums of the wire as people and files write them: "running", "budget", "rate_limited".
#ifndef NIGHTSHIFT_PROTO_WORDS_H_
#define NIGHTSHIFT_PROTO_WORDS_H_

#include <string>

#include "nightshift/v1/types.pb.h"

namespace nightshift {

std::string JobStateWord(v1::JobState state);
std::string PauseReasonWord(v1::PauseReason reason);     // empty for none
std::string ErrorClassWord(v1::ErrorClass error_class);  // "none" for NONE

}  // namespace nightshift

#endif  // NIGHTSHIFT_PROTO_WORDS_H_
