// The coordinator's store in simulated time: what a commit writes can be seen, and survives, only
// when its sync is over; until then a crash may lose it or not. It may be slow, fail, or be full.
#ifndef NIGHTSHIFT_TESTS_SIM_SIM_STORE_H_
#define NIGHTSHIFT_TESTS_SIM_SIM_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "storage/store.h"
#include "tests/sim/plan.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/witness.h"

namespace nightshift::sim {

// What outlives the coordinator. Everything that becomes durable passes the witness.
class SimDisk {
 public:
  SimDisk(const Plan& plan, Witness& witness, const Clock& clock);

  absl::Status Commit(WriteSet writes);
  const Store& rows() const { return *rows_; }
  Store& rows() { return *rows_; }
  // The sabotages that concern a disk: see plan.h.
  void OnCrash();

 private:
  void WriteTwice(const WriteSet& writes);

  const Sabotage sabotage_;
  Witness& witness_;
  const Clock& clock_;
  std::unique_ptr<Store> rows_;
  // kForgetfulDisk: the last commit, undone by a crash.
  std::vector<WriteSet::Write> undo_;
  int64_t outcomes_written_ = 0;
};

// One coordinator's handle. In its threads only, apart from reading.
class SimStore final : public Store {
 public:
  struct Trouble {
    bool slow = false;
    bool errors = false;
    bool full = false;
  };

  SimStore(SimDisk& disk, Scheduler& scheduler, ProcessPtr process, Random random,
           std::function<Trouble()> trouble);

  absl::Status Commit(WriteSet writes) override;
  absl::Status CheckRoom(size_t bytes) const override;
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override;
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options = {}) const override;
  absl::Status Health() const override;

  // The machine stops: of the commits under way the first ones have reached the disk, by chance.
  // Before the process is killed.
  void Crash();

 private:
  absl::Duration SyncTime();
  // A read may have to wait for the disk, and meanwhile other threads go on.
  void MaybeWait() const;

  SimDisk& disk_;
  Scheduler& scheduler_;
  const ProcessPtr process_;
  mutable Random random_;
  const std::function<Trouble()> trouble_;
  std::deque<WriteSet*> under_way_;
  absl::Status broken_;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_SIM_STORE_H_
