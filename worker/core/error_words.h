// What servers say beside the status: words in codes, types and messages that tell two errors of
// one status apart. Servers agree on few codes, so some are told by phrases of their messages.
#ifndef NIGHTSHIFT_WORKER_CORE_ERROR_WORDS_H_
#define NIGHTSHIFT_WORKER_CORE_ERROR_WORDS_H_

#include "worker/core/call.h"

namespace nightshift {

enum class Meaning {
  kNothing,  // the status decides
  kKeyRefused,
  kContextTooLong,
  kContentFilter,
  kModelNotFound,
  kLoading,
};

// `status` is the response's, or the one that an error inside a 200 stands for.
Meaning MeaningOf(int status, const CallOutcome& outcome);

// A used-up rate limit, as opposed to a server that is momentarily too busy: the account is refused
// until its window moves on, whatever the number of calls in flight.
bool SaysQuota(const CallOutcome& outcome);

// The status that an error object inside a 200 answer stands for: its code where that is a number,
// a "[503]" in its message, else what its code and type say; 500 when they say nothing.
int StatusOfErrorInside(const CallOutcome& outcome);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_ERROR_WORDS_H_
