#include "storage/memory_store.h"

#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace nightshift {
namespace {

using Rows = std::map<std::string, std::string, std::less<>>;

// std::map's transparent comparison wants something that it can compare with std::string.
std::string Text(absl::string_view view) { return std::string(view); }

// Copy on write: a scan shares the rows of its moment, and the first commit after it that touches
// the family goes on with a copy. References are taken and given up only under the mutex, so that
// "nobody else has it" is a fact and not a race.
struct Shared {
  Mutex mutex;
  std::array<std::shared_ptr<Rows>, kFamilyCount> families ABSL_GUARDED_BY(mutex);
};

class MemoryIterator final : public StoreIterator {
 public:
  MemoryIterator(std::shared_ptr<Shared> shared, Family family, absl::string_view begin,
                 absl::string_view end)
      : shared_(std::move(shared)), begin_(begin), end_(end) {
    {
      MutexLock lock(&shared_->mutex);
      rows_ = shared_->families[static_cast<size_t>(family)];
    }
    Seek(begin_);
  }
  ~MemoryIterator() override {
    MutexLock lock(&shared_->mutex);
    rows_.reset();
  }

  bool Valid() const override {
    return at_ != rows_->cend() && (end_.empty() || at_->first < end_);
  }
  absl::string_view key() const override { return at_->first; }
  absl::string_view value() const override { return at_->second; }
  void Next() override { ++at_; }
  void Seek(absl::string_view key) override {
    at_ = std::as_const(*rows_).lower_bound(std::max(Text(key), begin_));
  }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::string begin_;
  const std::string end_;
  std::shared_ptr<const Rows> rows_;
  Rows::const_iterator at_;
};

class MemoryStore final : public Store {
 public:
  MemoryStore() {
    MutexLock lock(&shared_->mutex);
    for (std::shared_ptr<Rows>& rows : shared_->families) rows = std::make_shared<Rows>();
  }

  absl::Status Commit(WriteSet writes) override {
    MutexLock lock(&shared_->mutex);
    for (const WriteSet::Condition& condition : writes.conditions()) {
      const Rows& rows = *shared_->families[static_cast<size_t>(condition.family)];
      const auto row = rows.find(condition.key);
      const bool holds = condition.present ? row != rows.end() && row->second == condition.value
                                           : row == rows.end();
      if (!holds) {
        return absl::AbortedError(
            absl::StrCat("a condition on family ", FamilyName(condition.family), " does not hold"));
      }
    }
    for (const WriteSet::Write& write : writes.writes()) Apply(write);
    return absl::OkStatus();
  }

  absl::Status CheckRoom(size_t) const override { return absl::OkStatus(); }

  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    MutexLock lock(&shared_->mutex);
    const Rows& rows = *shared_->families[static_cast<size_t>(family)];
    const auto row = rows.find(Text(key));
    if (row == rows.end()) return absl::NotFoundError("no such row");
    return row->second;
  }

  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions&) const override {
    return std::make_unique<MemoryIterator>(shared_, family, begin, end);
  }

  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  void Apply(const WriteSet::Write& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
    std::shared_ptr<Rows>& rows = shared_->families[static_cast<size_t>(write.family)];
    if (rows.use_count() > 1) rows = std::make_shared<Rows>(*rows);
    switch (write.kind) {
      case WriteSet::Write::Kind::kPut:
        (*rows)[write.key] = write.value;
        break;
      case WriteSet::Write::Kind::kDelete:
        rows->erase(write.key);
        break;
      case WriteSet::Write::Kind::kDeleteRange:
        if (write.key < write.value) {
          rows->erase(rows->lower_bound(write.key), rows->lower_bound(write.value));
        }
        break;
    }
  }

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

std::unique_ptr<Store> NewMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace nightshift
