#include "client/commands/early_scan.h"

#include <utility>

#include "base/thread_name.h"

namespace nightshift {

EarlyScan::EarlyScan(InputOptions input)
    : thread_([this, input = std::move(input)]() mutable {
        NameThisThread("ns-input");
        input.cancelled = [this] { return stop_.load(std::memory_order_relaxed); };
        scan_ = ScanInput(input, /*count_answers=*/false);
      }) {}

EarlyScan::~EarlyScan() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<InputScan> EarlyScan::Take() {
  thread_.join();
  return std::move(scan_);
}

}  // namespace nightshift
