#include "storage/metered_store.h"

#include <utility>

namespace nightshift {
namespace {

class MeteredStore final : public Store {
 public:
  MeteredStore(std::unique_ptr<Store> inner, Clock& clock,
               std::function<void(absl::Duration)> on_commit)
      : inner_(std::move(inner)), clock_(clock), on_commit_(std::move(on_commit)) {}

  absl::Status Commit(WriteSet writes) override {
    const MonotonicTime begun = clock_.Now();
    absl::Status status = inner_->Commit(std::move(writes));
    on_commit_(clock_.Now() - begun);
    return status;
  }
  absl::Status CheckRoom(size_t bytes) const override { return inner_->CheckRoom(bytes); }
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    return inner_->Get(family, key);
  }
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options) const override {
    return inner_->Scan(family, begin, end, options);
  }
  absl::Status Health() const override { return inner_->Health(); }

 private:
  const std::unique_ptr<Store> inner_;
  Clock& clock_;
  const std::function<void(absl::Duration)> on_commit_;
};

}  // namespace

std::unique_ptr<Store> NewMeteredStore(std::unique_ptr<Store> inner, Clock& clock,
                                       std::function<void(absl::Duration)> on_commit) {
  return std::make_unique<MeteredStore>(std::move(inner), clock, std::move(on_commit));
}

}  // namespace nightshift
