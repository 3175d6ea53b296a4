#include "coordinator/jobs/bad_lines.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

bool Before(const v1::BadLine& a, const v1::BadLine& b) { return a.line() < b.line(); }

}  // namespace

void BadLineList::Add(v1::BadLine line) {
  ++count_;
  if (heap_.size() == kept_max_) {
    if (heap_.empty() || !Before(line, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), Before);
    heap_.pop_back();
  }
  heap_.push_back(std::move(line));
  std::push_heap(heap_.begin(), heap_.end(), Before);
}

std::vector<v1::BadLine> BadLineList::Take() {
  std::sort_heap(heap_.begin(), heap_.end(), Before);
  return std::exchange(heap_, {});
}

std::string BadLineText(const v1::BadLine& line) {
  return line.field().empty() ? line.reason() : absl::StrCat(line.field(), ": ", line.reason());
}

}  // namespace nightshift
