// Renames the header `Range` while a request's head is read: the HTTP library runs a regular
// expression over its value before it calls anybody, which takes more stack than a thread has, and
// refuses by itself what it cannot read. What it does not know it leaves alone.
//
// Used by one thread.
#ifndef NIGHTSHIFT_BASE_RANGE_RENAMER_H_
#define NIGHTSHIFT_BASE_RANGE_RENAMER_H_

#include <cstddef>

namespace nightshift {

// What the library finds instead.
inline constexpr char kRenamedRange[] = "Range-";

class RangeRenamer {
 public:
  // The next byte of the head for the library, where `next` is the next one that came. `*taken`:
  // whether it is that one; otherwise it comes between, and `next` is to be given again.
  char Put(char next, bool* taken);
  // Another head begins.
  void Restart() { matched_ = 0; }

 private:
  // How much of "range:" this line has so far; kOther when it is another.
  static constexpr size_t kOther = static_cast<size_t>(-1);
  size_t matched_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_RANGE_RENAMER_H_
