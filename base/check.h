// A broken invariant ends the process with a message: going on would risk what has been promised.
#ifndef NIGHTSHIFT_BASE_CHECK_H_
#define NIGHTSHIFT_BASE_CHECK_H_

#include "absl/strings/string_view.h"

namespace nightshift {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              absl::string_view message);

}  // namespace nightshift

// Always on, in release builds too. `message` is evaluated only on failure.
#define NIGHTSHIFT_CHECK(condition, message)                              \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::nightshift::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)

#endif  // NIGHTSHIFT_BASE_CHECK_H_
