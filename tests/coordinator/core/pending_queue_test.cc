#include "coordinator/core/pending_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "storage/keys.h"

namespace nightshift {
namespace {

std::vector<uint64_t> Take(PendingQueue* queue, int64_t count) {
  std::vector<uint64_t> out;
  queue->Take(count, &out);
  queue->CheckConsistent();
  return out;
}

void FinishLeased(PendingQueue* queue, uint64_t index) {
  queue->BeginCommit(index, queue->StateOf(index));
  queue->Finish(index);
}

MonotonicTime At(int64_t seconds) { return MonotonicTime{seconds * 1'000'000'000}; }

TEST(PendingQueue, HandsOutEachRequestOnceByRisingIndex) {
  PendingQueue queue(10);
  EXPECT_EQ(Take(&queue, 4), (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(Take(&queue, 100), (std::vector<uint64_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(Take(&queue, 1), std::vector<uint64_t>{});
  EXPECT_EQ(queue.leased(), 10u);
  EXPECT_EQ(queue.available(), 0u);
}

TEST(PendingQueue, ReturnedRequestsGoOutFirst) {
  PendingQueue queue(10);
  Take(&queue, 5);
  queue.Return(3);
  queue.Return(1);
  EXPECT_EQ(queue.available(), 7u);
  EXPECT_EQ(Take(&queue, 3), (std::vector<uint64_t>{1, 3, 5}));
}

TEST(PendingQueue, RetriesWaitUntilTheyAreDue) {
  PendingQueue queue(2);
  Take(&queue, 2);
  queue.BeginCommit(0, queue.StateOf(0));
  queue.RetryAt(0, At(5));
  EXPECT_EQ(queue.NextDue(), At(5));
  queue.Advance(At(4));
  EXPECT_EQ(Take(&queue, 2), std::vector<uint64_t>{});
  EXPECT_EQ(queue.retrying(), 1u);
  queue.Advance(At(5));
  EXPECT_EQ(queue.retrying(), 0u);
  EXPECT_EQ(Take(&queue, 2), std::vector<uint64_t>{0});
  EXPECT_TRUE(queue.NextDue().infinite());
}

TEST(PendingQueue, AnAnswerRemovesARequestFromWhereverItIs) {
  PendingQueue queue(8, {}, 2, At(10));  // 0 and 1 unclaimed
  EXPECT_EQ(queue.unclaimed(), 2u);
  EXPECT_EQ(Take(&queue, 3), (std::vector<uint64_t>{2, 3, 4}));
  queue.Return(2);
  queue.BeginCommit(3, queue.StateOf(3));
  queue.RetryAt(3, At(20));
  for (const uint64_t index : {0, 2, 3, 4, 6}) {  // unclaimed, returned, retrying, leased, pending
    FinishLeased(&queue, index);
    EXPECT_EQ(queue.StateOf(index), RequestState::kFinished);
    queue.CheckConsistent();
  }
  EXPECT_EQ(queue.finished(), 5u);
  queue.Advance(At(30));
  EXPECT_EQ(Take(&queue, 10), (std::vector<uint64_t>{1, 5, 7}));
}

TEST(PendingQueue, UnclaimedRequestsWaitForTheGraceTime) {
  PendingQueue queue(6, {std::string(1, '\x02')}, 4, At(10));  // 1 is finished
  EXPECT_EQ(queue.unclaimed(), 3u);
  EXPECT_EQ(queue.available(), 2u);
  EXPECT_EQ(queue.NextDue(), At(10));
  EXPECT_EQ(Take(&queue, 9), (std::vector<uint64_t>{4, 5}));
  EXPECT_TRUE(queue.Claim(2));
  EXPECT_FALSE(queue.Claim(2));
  EXPECT_FALSE(queue.Claim(1));
  queue.Advance(At(10));
  EXPECT_EQ(queue.unclaimed(), 0u);
  EXPECT_EQ(Take(&queue, 9), (std::vector<uint64_t>{0, 3}));
}

TEST(PendingQueue, AClaimAheadOfTheCursorIsNotHandedOutAgain) {
  PendingQueue queue(5);
  EXPECT_TRUE(queue.Claim(2));
  EXPECT_EQ(queue.available(), 4u);
  EXPECT_EQ(queue.frontier(), 3u);  // 2 is out: after a restart it must wait to be claimed
  EXPECT_EQ(Take(&queue, 9), (std::vector<uint64_t>{0, 1, 3, 4}));
  queue.Return(2);
  EXPECT_EQ(Take(&queue, 9), std::vector<uint64_t>{2});
}

TEST(PendingQueue, ACommittingRequestCanNeitherBeClaimedNorTaken) {
  PendingQueue queue(1);
  Take(&queue, 1);
  queue.BeginCommit(0, queue.StateOf(0));
  EXPECT_FALSE(queue.Claim(0));
  EXPECT_EQ(queue.available(), 0u);
  EXPECT_EQ(queue.committing(), 1u);
}

TEST(PendingQueue, BitmapsOfOddShapesAreRead) {
  // A short bitmap, one with bits past the end, and one that is missing.
  const uint64_t total = 2 * kChunkRequests + 3;
  std::vector<std::string> finished(3);
  finished[0] = std::string(1, '\x01');
  finished[2] = std::string(20, '\xff');
  PendingQueue queue(total, finished, 0, At(0));
  EXPECT_EQ(queue.finished(), 4u);
  EXPECT_EQ(queue.chunks(), 3u);
  EXPECT_EQ(queue.bitmap(0).size(), kChunkRequests / 8);
  EXPECT_EQ(queue.bitmap(2), std::string(1, '\x07'));
  const std::vector<uint64_t> all = Take(&queue, static_cast<int64_t>(total));
  EXPECT_EQ(all.size(), total - 4);
  EXPECT_EQ(all.front(), 1u);
  EXPECT_EQ(all.back(), 2 * kChunkRequests - 1);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
}

TEST(PendingQueue, RequestsThatAreInvalidFromTheStartNeverGoOut) {
  PendingQueue queue(3);
  queue.FinishUnused(1);
  EXPECT_EQ(Take(&queue, 9), (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(queue.finished(), 1u);
}

TEST(PendingQueueDeathTest, HandingBackWhatIsNotLeasedBreaksTheProgram) {
  PendingQueue queue(2);
  EXPECT_DEATH(queue.Return(0), "not leased");
}

TEST(PendingQueueDeathTest, ASecondOutcomeBreaksTheProgram) {
  PendingQueue queue(1);
  Take(&queue, 1);
  FinishLeased(&queue, 0);
  EXPECT_DEATH(queue.BeginCommit(0, queue.StateOf(0)), "finished");
}

}  // namespace
}  // namespace nightshift
