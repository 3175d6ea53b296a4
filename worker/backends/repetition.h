// A model that has lost its way says one phrase over and over until its tokens run out.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_REPETITION_H_
#define NIGHTSHIFT_WORKER_BACKENDS_REPETITION_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace nightshift {

// At least this much of the end must be repetition; shorter answers are never called repetitive.
inline constexpr size_t kRepetitiveBytesMin = 600;
// So many times in a row.
inline constexpr size_t kRepetitionsMin = 8;

// Whether `text` ends in one phrase, said at least kRepetitionsMin times over at least
// kRepetitiveBytesMin bytes. Lists and tables with differing entries are not repetition.
bool EndsInRepetition(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_REPETITION_H_
