#include "worker/core/outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/core/fake_spool.h"

namespace nightshift {
namespace {

v1::AttemptResult Result(uint64_t index, v1::AttemptResult::Kind kind = v1::AttemptResult::ANSWERED,
                         size_t body_bytes = 0) {
  v1::AttemptResult result;
  result.mutable_key()->set_job(1);
  result.mutable_key()->set_index(index);
  result.set_kind(kind);
  result.set_body(std::string(body_bytes, 'x'));
  return result;
}

RequestKey Key(uint64_t index) { return {.job = 1, .index = index}; }

std::vector<uint64_t> Sequences(const v1::ResultBatch& batch) {
  std::vector<uint64_t> sequences;
  for (const v1::AttemptResult& result : batch.results()) sequences.push_back(result.sequence());
  return sequences;
}

std::vector<uint64_t> Next(Outbox& outbox) {
  v1::ResultBatch batch;
  outbox.NextMessage(&batch);
  return Sequences(batch);
}

using Numbers = std::vector<uint64_t>;

TEST(OutboxTest, NumbersFromOneAndSendsInOrder) {
  Outbox outbox({});
  for (uint64_t i = 10; i < 13; ++i) outbox.Add(Result(i));
  EXPECT_EQ(Next(outbox), (Numbers{1, 2, 3}));
  EXPECT_FALSE(outbox.HasUnsent());
  EXPECT_EQ(Next(outbox), Numbers{});
  EXPECT_EQ(outbox.requests(), 3);
}

TEST(OutboxTest, SendsAgainWhatIsNotAcknowledged) {
  Outbox outbox({});
  for (uint64_t i = 0; i < 5; ++i) outbox.Add(Result(i));
  Next(outbox);
  outbox.Acknowledge(2);
  outbox.Acknowledge(1);
  outbox.Acknowledge(4);
  outbox.Rewind();
  EXPECT_EQ(Next(outbox), (Numbers{3, 5}));
  outbox.Acknowledge(3);
  outbox.Acknowledge(5);
  outbox.Rewind();
  EXPECT_FALSE(outbox.HasUnsent());
  EXPECT_EQ(outbox.requests(), 0);
  EXPECT_EQ(outbox.bytes(), 0);
  outbox.Add(Result(9));
  EXPECT_EQ(Next(outbox), Numbers{6});
}

TEST(OutboxTest, IgnoresAcknowledgementsOfWhatItDoesNotHave) {
  Outbox outbox({});
  outbox.Add(Result(0));
  outbox.Acknowledge(0);
  outbox.Acknowledge(2);
  outbox.Acknowledge(UINT64_MAX);
  EXPECT_EQ(outbox.requests(), 1);
  outbox.Acknowledge(1);
  outbox.Acknowledge(1);
  EXPECT_EQ(outbox.requests(), 0);
  EXPECT_EQ(outbox.bytes(), 0);
}

TEST(OutboxTest, ClosesAMessageThatHasPassedALimit) {
  Outbox outbox({.results_per_message_max = 3, .bytes_per_message_max = 10'000});
  for (uint64_t i = 0; i < 7; ++i) outbox.Add(Result(i));
  EXPECT_EQ(Next(outbox), (Numbers{1, 2, 3}));
  EXPECT_EQ(Next(outbox), (Numbers{4, 5, 6}));
  EXPECT_EQ(Next(outbox), (Numbers{7}));
  outbox.Add(Result(7, v1::AttemptResult::ANSWERED, 6'000));
  outbox.Add(Result(8, v1::AttemptResult::ANSWERED, 6'000));
  outbox.Add(Result(9, v1::AttemptResult::ANSWERED, 100'000));
  EXPECT_EQ(Next(outbox), (Numbers{8, 9}));
  EXPECT_EQ(Next(outbox), (Numbers{10}));
}

TEST(OutboxTest, IsFullByCountOrBytes) {
  Outbox by_count({.requests_max = 2});
  by_count.Add(Result(0));
  EXPECT_FALSE(by_count.full());
  by_count.Add(Result(1));
  EXPECT_TRUE(by_count.full());
  by_count.Acknowledge(1);
  EXPECT_FALSE(by_count.full());

  Outbox by_bytes({.bytes_max = 10'000});
  by_bytes.Add(Result(0, v1::AttemptResult::ANSWERED, 9'000));
  EXPECT_FALSE(by_bytes.full());
  by_bytes.Add(Result(1, v1::AttemptResult::ANSWERED, 9'000));
  EXPECT_TRUE(by_bytes.full());
  by_bytes.Acknowledge(2);
  EXPECT_FALSE(by_bytes.full());
}

// Else one result that is never acknowledged would let the gaps behind it grow without end.
TEST(OutboxTest, GapsBehindAnUnacknowledgedResultCount) {
  Outbox outbox({.requests_max = 3});
  for (uint64_t i = 0; i < 3; ++i) outbox.Add(Result(i));
  outbox.Acknowledge(2);
  outbox.Acknowledge(3);
  EXPECT_EQ(outbox.requests(), 1);
  EXPECT_TRUE(outbox.full());
  outbox.Acknowledge(1);
  EXPECT_FALSE(outbox.full());
}

TEST(OutboxTest, DropsTheResultOfARequest) {
  Outbox outbox({});
  for (uint64_t i = 0; i < 3; ++i) outbox.Add(Result(i));
  EXPECT_TRUE(outbox.Drop(Key(1)));
  EXPECT_FALSE(outbox.Drop(Key(1)));
  EXPECT_FALSE(outbox.Drop(Key(7)));
  EXPECT_EQ(Next(outbox), (Numbers{1, 3}));
  EXPECT_EQ(outbox.requests(), 2);
  // The same request may get another one later.
  outbox.Add(Result(1));
  EXPECT_EQ(Next(outbox), Numbers{4});
}

TEST(OutboxTest, FindsTheResultOfARequest) {
  Outbox outbox({});
  outbox.Add(Result(1, v1::AttemptResult::RETRY));
  outbox.Add(Result(2, v1::AttemptResult::REJECTED));
  ASSERT_NE(outbox.Find(Key(2)), nullptr);
  EXPECT_EQ(outbox.Find(Key(2))->kind(), v1::AttemptResult::REJECTED);
  EXPECT_EQ(outbox.Find(Key(2))->sequence(), 2u);
  EXPECT_EQ(outbox.Find(Key(3)), nullptr);
  outbox.Acknowledge(1);
  EXPECT_EQ(outbox.Find(Key(1)), nullptr);
}

TEST(OutboxTest, TheSpoolHasWhatIsFinalAndNotAcknowledged) {
  FakeSpool spool;
  Outbox outbox({}, &spool);
  outbox.Add(Result(1));
  outbox.Add(Result(2, v1::AttemptResult::RETRY));
  outbox.Add(Result(3, v1::AttemptResult::REJECTED));
  EXPECT_EQ(spool.Indexes(""), (Numbers{1, 3}));
  outbox.Acknowledge(1);
  outbox.Drop(Key(2));
  EXPECT_EQ(spool.Indexes(""), Numbers{3});
  EXPECT_EQ(outbox.Abandon(), 0);
  EXPECT_EQ(spool.Indexes(""), Numbers{3});
  EXPECT_EQ(outbox.requests(), 0);
  EXPECT_EQ(outbox.bytes(), 0);
  EXPECT_FALSE(outbox.HasUnsent());
  // Late acknowledgements of what was abandoned mean nothing to what came after.
  for (KeptResult& kept : spool.Use("")) EXPECT_TRUE(outbox.AddKept(std::move(kept)));
  outbox.Acknowledge(3);
  EXPECT_EQ(Next(outbox), Numbers{4});
  outbox.Acknowledge(4);
  EXPECT_TRUE(spool.kept.empty());
}

TEST(OutboxTest, AbandonCountsWhatIsNowhereElse) {
  FakeSpool spool;
  Outbox outbox({}, &spool);
  outbox.Add(Result(1));
  outbox.Add(Result(2, v1::AttemptResult::RETRY));
  EXPECT_EQ(outbox.Abandon(), 1);
}

}  // namespace
}  // namespace nightshift
