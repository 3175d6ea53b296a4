// Comparing secrets without telling by the time it takes how much of one was right.
#ifndef NIGHTSHIFT_BASE_CONSTANT_TIME_H_
#define NIGHTSHIFT_BASE_CONSTANT_TIME_H_

#include "absl/strings/string_view.h"

namespace nightshift {

// Takes as long as `a` is, whatever `b` holds. `a` is what a caller sent, `b` the secret.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_CONSTANT_TIME_H_
