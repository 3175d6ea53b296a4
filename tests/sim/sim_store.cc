#include "tests/sim/sim_store.h"

#include <algorithm>
#include <utility>

#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"

namespace nightshift::sim {
namespace {

constexpr double kReadWaits = 0.03;
constexpr double kSyncFails = 0.01;
constexpr double kDiskFull = 0.01;
constexpr double kSyncStalls = 0.05;

absl::Status Gone() { return absl::UnavailableError("the machine has stopped"); }

// Of a dead process.
class NoRows final : public StoreIterator {
 public:
  bool Valid() const override { return false; }
  absl::string_view key() const override { return ""; }
  absl::string_view value() const override { return ""; }
  void Next() override {}
  void Seek(absl::string_view) override {}
  absl::Status status() const override { return Gone(); }
};

}  // namespace

SimDisk::SimDisk(const Plan& plan, Witness& witness, const Clock& clock)
    : sabotage_(plan.sabotage), witness_(witness), clock_(clock), rows_(NewMemoryStore()) {}

absl::Status SimDisk::Commit(WriteSet writes) {
  witness_.BeforeCommit(*rows_, writes, clock_.Now());
  std::vector<WriteSet::Write> undo;
  if (sabotage_ == Sabotage::kForgetfulDisk) {
    for (const WriteSet::Write& write : writes.writes()) {
      if (write.family != Family::kOutcomes || write.kind != WriteSet::Write::Kind::kPut) continue;
      undo.push_back({WriteSet::Write::Kind::kDelete, write.family, write.key, ""});
    }
  }
  const WriteSet copy = sabotage_ == Sabotage::kTwiceRecorded ? writes : WriteSet();
  const absl::Status status = rows_->Commit(std::move(writes));
  if (!status.ok()) return status;
  witness_.AfterCommit();
  if (!undo.empty()) undo_ = std::move(undo);
  if (sabotage_ == Sabotage::kTwiceRecorded) WriteTwice(copy);
  return status;
}

void SimDisk::WriteTwice(const WriteSet& writes) {
  for (const WriteSet::Write& write : writes.writes()) {
    if (write.family != Family::kOutcomes || write.kind != WriteSet::Write::Kind::kPut) continue;
    if (++outcomes_written_ != 3) continue;
    v1::OutcomeRecord outcome;
    if (!DecodeRecord(write.key, write.value, &outcome).ok()) return;
    outcome.set_finished_at_ms(outcome.finished_at_ms() + 1);
    WriteSet again;
    again.Put(Family::kOutcomes, write.key, EncodeRecord(write.key, outcome));
    witness_.BeforeCommit(*rows_, again, clock_.Now());
    if (rows_->Commit(std::move(again)).ok()) witness_.AfterCommit();
  }
}

void SimDisk::OnCrash() {
  if (undo_.empty()) return;
  WriteSet writes;
  for (const WriteSet::Write& write : undo_) writes.Delete(write.family, write.key);
  undo_.clear();
  rows_->Commit(std::move(writes)).IgnoreError();
}

SimStore::SimStore(SimDisk& disk, Scheduler& scheduler, ProcessPtr process, Random random,
                   std::function<Trouble()> trouble)
    : disk_(disk),
      scheduler_(scheduler),
      process_(std::move(process)),
      random_(random),
      trouble_(std::move(trouble)) {}

absl::Duration SimStore::SyncTime() {
  const double median = trouble_().slow ? 0.030 : 0.001;
  absl::Duration time = absl::Seconds(std::min(random_.LogNormal(median, 0.7), 2.0));
  if (trouble_().slow && random_.Chance(kSyncStalls)) time += absl::Seconds(10 * random_.Unit());
  return time;
}

absl::Status SimStore::Commit(WriteSet writes) {
  if (!process_->alive) return Gone();
  if (!broken_.ok()) return broken_;
  if (trouble_().full && random_.Chance(kDiskFull)) {
    return absl::ResourceExhaustedError("no space left on device");
  }
  under_way_.push_back(&writes);
  scheduler_.Sleep(SyncTime());
  if (!process_->alive) return Gone();  // Crash has decided about it
  std::erase(under_way_, &writes);
  if (!broken_.ok()) return broken_;
  if (trouble_().errors && random_.Chance(kSyncFails)) {
    broken_ = absl::UnavailableError("the disk has failed a sync");
    // What the disk got before it failed is anyone's guess.
    if (random_.Chance(0.5)) disk_.Commit(std::move(writes)).IgnoreError();
    return broken_;
  }
  return disk_.Commit(std::move(writes));
}

void SimStore::MaybeWait() const {
  if (Fiber::Current() == nullptr || !random_.Chance(kReadWaits)) return;
  scheduler_.Sleep(absl::Milliseconds(20) * random_.Unit());
}

// A full disk shows itself in Commit here, as one does that fills in between.
absl::Status SimStore::CheckRoom(size_t /*bytes*/) const { return absl::OkStatus(); }

absl::StatusOr<std::string> SimStore::Get(Family family, absl::string_view key) const {
  MaybeWait();
  if (!process_->alive) return Gone();
  return disk_.rows().Get(family, key);
}

std::unique_ptr<StoreIterator> SimStore::Scan(Family family, absl::string_view begin,
                                              absl::string_view end,
                                              const ScanOptions& options) const {
  MaybeWait();
  if (!process_->alive) return std::make_unique<NoRows>();
  return disk_.rows().Scan(family, begin, end, options);
}

absl::Status SimStore::Health() const { return process_->alive ? broken_ : Gone(); }

void SimStore::Crash() {
  if (broken_.ok()) {
    for (uint64_t landed = random_.Below(under_way_.size() + 1); landed > 0; --landed) {
      disk_.Commit(std::move(*under_way_.front())).IgnoreError();
      under_way_.pop_front();
    }
  }
  under_way_.clear();
  disk_.OnCrash();
}

}  // namespace nightshift::sim
