#include "coordinator/commit/progress_ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/jobs/recovery.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr JobNumber kJob = 7;
// Two whole chunks and a bit of a third.
constexpr int64_t kTotal = 2 * kChunkRequests + 37;

v1::OutcomeRecord Success(int64_t tokens) {
  v1::OutcomeRecord outcome;
  outcome.set_kind(v1::OUTCOME_SUCCEEDED);
  outcome.mutable_usage()->set_known(true);
  outcome.mutable_usage()->set_prompt_tokens(tokens);
  outcome.mutable_usage()->set_completion_tokens(2 * tokens);
  outcome.mutable_usage()->set_cost_known(true);
  outcome.mutable_usage()->set_cost_usd(0.25);
  return outcome;
}

v1::OutcomeRecord Failure(v1::ErrorClass error_class) {
  v1::OutcomeRecord outcome;
  outcome.set_kind(v1::OUTCOME_FAILED);
  outcome.set_error_class(error_class);
  return outcome;
}

class ProgressLedgerTest : public testing::Test {
 protected:
  std::unique_ptr<ProgressLedger> NewLedger(int deltas_max) {
    return std::make_unique<ProgressLedger>(
        *store_, deltas_max, [this](JobNumber) -> absl::StatusOr<int64_t> { return total_; });
  }
  void Commit(ProgressLedger& ledger) {
    WriteSet writes;
    ledger.AddRows(writes);
    ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  }
  // The progress rows of a chunk: commit numbers.
  std::vector<uint64_t> RowsOf(uint32_t chunk) {
    std::vector<uint64_t> rows;
    const auto scan = store_->Scan(Family::kProgress, ProgressKey(kJob, chunk, 0),
                                   ProgressKey(kJob, chunk + 1, 0));
    for (; scan->Valid(); scan->Next()) rows.push_back(ParseProgressKey(scan->key())->commit);
    return rows;
  }
  v1::ProgressSums Load(std::vector<std::string>* bitmaps) {
    v1::ProgressSums sums;
    const absl::Status status = LoadProgress(*store_, kJob, total_, bitmaps, &sums);
    EXPECT_TRUE(status.ok()) << status;
    return sums;
  }

  std::unique_ptr<Store> store_ = NewMemoryStore();
  int64_t total_ = kTotal;
};

TEST_F(ProgressLedgerTest, OneDeltaPerTouchedChunkAndCommit) {
  auto ledger = NewLedger(64);
  ASSERT_TRUE(ledger->Add(kJob, 3, Success(1)).ok());
  ASSERT_TRUE(ledger->Add(kJob, kChunkRequests + 1, Success(1)).ok());
  ASSERT_TRUE(ledger->Add(kJob, 9, Failure(v1::ERROR_CLASS_TIMEOUT)).ok());
  Commit(*ledger);
  EXPECT_EQ(RowsOf(0), std::vector<uint64_t>{1});
  EXPECT_EQ(RowsOf(1), std::vector<uint64_t>{1});
  ASSERT_TRUE(ledger->Add(kJob, 4, Success(1)).ok());
  Commit(*ledger);
  EXPECT_EQ(RowsOf(0), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(RowsOf(1), std::vector<uint64_t>{1});

  std::vector<std::string> bitmaps;
  const v1::ProgressSums sums = Load(&bitmaps);
  ASSERT_EQ(bitmaps.size(), 3u);
  EXPECT_EQ(bitmaps[0].size(), kChunkBitmapBytes);
  EXPECT_TRUE(BitIsSet(bitmaps[0], 3) && BitIsSet(bitmaps[0], 4) && BitIsSet(bitmaps[0], 9));
  EXPECT_EQ(CountBits(bitmaps[0]), 3u);
  EXPECT_TRUE(BitIsSet(bitmaps[1], 1));
  EXPECT_EQ(sums.succeeded(), 3);
  EXPECT_EQ(sums.failed(), 1);
  EXPECT_EQ(sums.failed_by_class().at(v1::ERROR_CLASS_TIMEOUT), 1);
  EXPECT_EQ(sums.prompt_tokens(), 3);
  EXPECT_EQ(sums.completion_tokens(), 6);
  EXPECT_DOUBLE_EQ(sums.cost_usd(), 0.75);
}

TEST_F(ProgressLedgerTest, TooManyDeltasAreFoldedIntoTheBase) {
  auto ledger = NewLedger(3);
  for (uint64_t index = 0; index < 3; ++index) {
    ASSERT_TRUE(ledger->Add(kJob, index, Success(1)).ok());
    Commit(*ledger);
  }
  EXPECT_EQ(RowsOf(0), (std::vector<uint64_t>{1, 2, 3}));
  ASSERT_TRUE(ledger->Add(kJob, 3, Success(1)).ok());
  Commit(*ledger);
  EXPECT_EQ(RowsOf(0), std::vector<uint64_t>{0});
  std::vector<std::string> bitmaps;
  EXPECT_EQ(Load(&bitmaps).succeeded(), 4);
  EXPECT_EQ(CountBits(bitmaps[0]), 4u);
}

TEST_F(ProgressLedgerTest, WholeChunkIsFoldedAtOnce) {
  auto ledger = NewLedger(64);
  const uint64_t begin = 2 * kChunkRequests;
  for (uint64_t index = begin; index < static_cast<uint64_t>(kTotal); ++index) {
    ASSERT_TRUE(ledger->Add(kJob, index, Success(1)).ok());
    if (index % 10 == 0) Commit(*ledger);
  }
  EXPECT_GT(RowsOf(2).size(), 1u);
  Commit(*ledger);
  EXPECT_EQ(RowsOf(2), std::vector<uint64_t>{0});
}

// A commit number that came again would overwrite what an earlier commit finished.
TEST_F(ProgressLedgerTest, CommitNumbersRiseAcrossRestarts) {
  for (uint64_t restart = 0; restart < 5; ++restart) {
    auto ledger = NewLedger(64);
    ASSERT_TRUE(ledger->Add(kJob, restart, Success(1)).ok());
    Commit(*ledger);
  }
  EXPECT_EQ(RowsOf(0), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  std::vector<std::string> bitmaps;
  EXPECT_EQ(Load(&bitmaps).succeeded(), 5);
}

TEST_F(ProgressLedgerTest, SecondOutcomeIsRefused) {
  auto ledger = NewLedger(64);
  ASSERT_TRUE(ledger->Add(kJob, 5, Success(1)).ok());
  EXPECT_EQ(ledger->Add(kJob, 5, Success(1)).code(), absl::StatusCode::kInternal);
  Commit(*ledger);
  auto restarted = NewLedger(64);
  EXPECT_EQ(restarted->Add(kJob, 5, Success(1)).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(restarted->Add(kJob, static_cast<uint64_t>(kTotal), Success(1)).code(),
            absl::StatusCode::kInternal);
}

TEST_F(ProgressLedgerTest, FoldAllLeavesNoDelta) {
  auto ledger = NewLedger(64);
  for (const uint64_t index : {uint64_t{1}, kChunkRequests + 1, 2 * kChunkRequests + 1}) {
    ASSERT_TRUE(ledger->Add(kJob, index, Success(1)).ok());
  }
  Commit(*ledger);
  ledger->FoldAll();
  while (ledger->HasFolds()) Commit(*ledger);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(RowsOf(chunk), std::vector<uint64_t>{0}) << chunk;
  }
}

// What a cancelled job leaves is folded in the commit that ends it, with that commit's results.
TEST_F(ProgressLedgerTest, RetiredJobIsFoldedWithTheSameCommit) {
  auto ledger = NewLedger(64);
  ASSERT_TRUE(ledger->Add(kJob, 1, Success(1)).ok());
  ASSERT_TRUE(ledger->Add(kJob, kChunkRequests, Success(1)).ok());
  Commit(*ledger);
  ASSERT_TRUE(ledger->Add(kJob, 2, Success(1)).ok());
  ledger->Retire(kJob);
  Commit(*ledger);
  EXPECT_FALSE(ledger->HasFolds());
  EXPECT_EQ(RowsOf(0), std::vector<uint64_t>{0});
  EXPECT_EQ(RowsOf(1), std::vector<uint64_t>{0});
  std::vector<std::string> bitmaps;
  EXPECT_EQ(Load(&bitmaps).succeeded(), 3);
}

// The rows were replaced by somebody else: what was remembered of them must not come back.
TEST_F(ProgressLedgerTest, ForgottenJobIsReadAgain) {
  auto ledger = NewLedger(64);
  ASSERT_TRUE(ledger->Add(kJob, 1, Success(1)).ok());
  Commit(*ledger);
  WriteSet writes;
  writes.DeleteRange(Family::kProgress, JobKey(kJob), JobKey(kJob + 1));
  ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  ledger->Forget(kJob);
  ASSERT_TRUE(ledger->Add(kJob, 1, Success(1)).ok());
  Commit(*ledger);
  std::vector<std::string> bitmaps;
  EXPECT_EQ(Load(&bitmaps).succeeded(), 1);
}

// Random commits, folds and restarts; after each the rows say exactly what was committed.
TEST_F(ProgressLedgerTest, RowsAlwaysAddUpToWhatWasCommitted) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    store_ = NewMemoryStore();
    auto ledger = NewLedger(4);
    std::set<uint64_t> finished;
    v1::ProgressSums expected;
    for (int commit = 0; commit < 60; ++commit) {
      for (uint64_t n = random.Below(30); n > 0; --n) {
        const uint64_t index = random.Below(static_cast<uint64_t>(kTotal));
        if (!finished.insert(index).second) continue;
        const v1::OutcomeRecord outcome =
            random.Chance(0.2) ? Failure(static_cast<v1::ErrorClass>(1 + random.Below(5)))
                               : Success(static_cast<int64_t>(random.Below(100)));
        AddOutcome(outcome, &expected);
        ASSERT_TRUE(ledger->Add(kJob, index, outcome).ok());
      }
      if (random.Chance(0.1)) ledger->FoldAll();
      Commit(*ledger);
      if (random.Chance(0.1)) ledger = NewLedger(4);
      std::vector<std::string> bitmaps;
      EXPECT_TRUE(SumsAgree(Load(&bitmaps), expected));
      uint64_t bits = 0;
      for (const std::string& bitmap : bitmaps) bits += CountBits(bitmap);
      EXPECT_EQ(bits, finished.size());
      for (uint32_t chunk = 0; chunk < 3; ++chunk) EXPECT_LE(RowsOf(chunk).size(), 5u);
    }
    for (const uint64_t index : finished) {
      std::vector<std::string> bitmaps;
      Load(&bitmaps);
      ASSERT_TRUE(BitIsSet(bitmaps[index / kChunkRequests], index % kChunkRequests));
      break;
    }
  }
}

TEST_F(ProgressLedgerTest, BitmapOfSmallJobIsShort) {
  total_ = 3;
  auto ledger = NewLedger(64);
  for (uint64_t index = 0; index < 3; ++index) {
    ASSERT_TRUE(ledger->Add(kJob, index, Success(1)).ok());
  }
  Commit(*ledger);
  const absl::StatusOr<std::string> row = store_->Get(Family::kProgress, ProgressKey(kJob, 0, 0));
  ASSERT_TRUE(row.ok());
  EXPECT_LT(row->size(), 64u);
}

TEST_F(ProgressLedgerTest, ContradictoryRowsAreDataLoss) {
  auto ledger = NewLedger(64);
  ASSERT_TRUE(ledger->Add(kJob, 5, Success(1)).ok());
  Commit(*ledger);
  v1::ProgressDelta delta;
  delta.add_offsets(5);
  const std::string key = ProgressKey(kJob, 0, 9);
  WriteSet writes;
  writes.Put(Family::kProgress, key, EncodeRecord(key, delta));
  ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  std::vector<std::string> bitmaps;
  v1::ProgressSums sums;
  const absl::Status status = LoadProgress(*store_, kJob, total_, &bitmaps, &sums);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.ToString().find("finished already"), std::string::npos) << status;
}

}  // namespace
}  // namespace nightshift
