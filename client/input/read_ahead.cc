#include "client/input/read_ahead.h"

#include <utility>

#include "base/thread_name.h"

namespace nightshift {

ReadAhead::ReadAhead(std::unique_ptr<InputReader> reader)
    : reader_(std::move(reader)), thread_([this] { Run(); }) {}

ReadAhead::~ReadAhead() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

absl::StatusOr<std::vector<InputItem>> ReadAhead::Next() {
  MutexLock lock(&mutex_);
  while (batches_.empty() && !ended_) changed_.Wait(&mutex_);
  if (batches_.empty()) {
    if (!end_.ok()) return end_;
    return std::vector<InputItem>();
  }
  std::vector<InputItem> batch = std::move(batches_.front());
  batches_.erase(batches_.begin());
  changed_.SignalAll();
  return batch;
}

void ReadAhead::Run() {
  NameThisThread("ns-input");
  absl::Status end;
  std::vector<InputItem> batch;
  size_t bytes = 0;
  InputItem item;
  bool wanted = true;
  while (wanted && !stop_) {
    const absl::StatusOr<bool> more = reader_->Next(&item);
    if (!more.ok()) end = more.status();
    if (!more.ok() || !*more) break;
    bytes += item.request.body.size();
    batch.push_back(std::move(item));
    item = InputItem();
    if (batch.size() < kBatchItemsMax && bytes < kBatchBytesMax) continue;
    wanted = Give(std::exchange(batch, {}));
    bytes = 0;
  }
  if (wanted && !batch.empty()) Give(std::move(batch));
  MutexLock lock(&mutex_);
  end_ = std::move(end);
  ended_ = true;
  changed_.SignalAll();
}

bool ReadAhead::Give(std::vector<InputItem> batch) {
  MutexLock lock(&mutex_);
  while (batches_.size() >= kReadAheadBatches && !stop_) changed_.Wait(&mutex_);
  if (stop_) return false;
  batches_.push_back(std::move(batch));
  changed_.SignalAll();
  return true;
}

}  // namespace nightshift
