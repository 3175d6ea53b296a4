// The runner with a spool: what a dead process has left is delivered, and never to another store.
#include <gmock/gmock.h>

#include "base/log.h"
#include "tests/worker/core/fake_spool.h"
#include "tests/worker/core/runner_fixture.h"

namespace nightshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class RunnerSpoolTest : public RunnerTest {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kError); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  // A worker process begins; the one before is gone without a word.
  void Start(int limit = 4) {
    calls_ = RecordingCalls();
    link_ = RecordingLink();
    RunnerOptions options = Options(limit);
    options.session = absl::StrCat("session ", ++processes_);
    options.spool = &spool_;
    Make(std::move(options));
  }
  void WelcomeOf(const std::string& store, std::vector<uint64_t> drop = {}) {
    v1::CoordinatorMessage message;
    message.mutable_welcome()->set_lease_ttl_ms(30'000);
    message.mutable_welcome()->set_store(store);
    for (const uint64_t index : drop) SetKey(message.mutable_welcome()->add_drop(), index);
    runner_->OnMessage(std::move(message), Now());
  }
  void ConnectTo(const std::string& store) {
    LinkUp();
    WelcomeOf(store);
  }
  const v1::Hello& Hello() const {
    for (const v1::WorkerMessage& message : link_.sent) {
      if (message.has_hello()) return message.hello();
    }
    return v1::Hello::default_instance();
  }
  std::vector<uint64_t> ResultIndexes() const {
    std::vector<uint64_t> indexes;
    for (const v1::AttemptResult& result : Results()) indexes.push_back(result.key().index());
    return indexes;
  }

  FakeSpool spool_;
  int processes_ = 0;
};

TEST_F(RunnerSpoolTest, KeepsAnswersUntilTheyAreAcknowledged) {
  Start(2);
  ConnectTo("s");
  Lease(0, 3);
  Finish(Answer(calls_.started[0].id));
  Finish(HttpError(calls_.started[1].id, 400, "no"));
  EXPECT_THAT(spool_.Indexes("s"), ElementsAre(0, 1));
  Acknowledge({1});
  EXPECT_THAT(spool_.Indexes("s"), ElementsAre(1));
  Revoke({1});
  EXPECT_THAT(spool_.Indexes("s"), IsEmpty());
}

// Nothing was paid for that a failure holds, and delivered late it could charge a new try.
TEST_F(RunnerSpoolTest, FailuresToBeTriedAgainAreNotKept) {
  Start();
  ConnectTo("s");
  Lease(0, 1);
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  EXPECT_EQ(Results().size(), 1u);
  EXPECT_THAT(spool_.Indexes("s"), IsEmpty());
}

TEST_F(RunnerSpoolTest, ADeadProcessAnswersAreNamedAndSentByTheNextAndNotCalledAgain) {
  Start(2);
  ConnectTo("s");
  Lease(0, 3);
  LinkDown();
  Finish(Answer(calls_.started[0].id));
  Finish(Answer(calls_.started[1].id));
  Start(2);
  EXPECT_EQ(runner_->unacknowledged(), 2);
  EXPECT_FALSE(runner_->Idle());
  LinkUp();
  EXPECT_EQ(Hello().store(), "s");
  ASSERT_EQ(Hello().held_size(), 2);
  for (const v1::HeldRequest& held : Hello().held()) EXPECT_TRUE(held.answered());
  EXPECT_THAT(Results(), IsEmpty()) << "before the Welcome";
  WelcomeOf("s");
  EXPECT_THAT(ResultIndexes(), ElementsAre(0, 1));
  EXPECT_EQ(Results()[0].body(), Answer(1).body);
  // Should it be leased all the same: its answer is on the way.
  Lease(0, 3);
  EXPECT_THAT(Started(), ElementsAre("body 2"));
  Acknowledge({Results()[0].sequence(), Results()[1].sequence()});
  EXPECT_THAT(spool_.Indexes("s"), IsEmpty());
}

TEST_F(RunnerSpoolTest, WhatTheCoordinatorDoesNotWantIsForgotten) {
  Start();
  ConnectTo("s");
  Lease(0, 2);
  LinkDown();
  Finish(Answer(calls_.started[0].id));
  Finish(Answer(calls_.started[1].id));
  Start();
  LinkUp();
  WelcomeOf("s", {0});
  EXPECT_THAT(ResultIndexes(), ElementsAre(1));
  EXPECT_THAT(spool_.Indexes("s"), ElementsAre(1));
}

// Two answers to one request can be left, of a process and of its successor: one is enough.
TEST_F(RunnerSpoolTest, TwoAnswersToOneRequestAreOne) {
  spool_.store = "s";
  for (int i = 0; i < 2; ++i) {
    v1::AttemptResult result;
    SetKey(result.mutable_key(), 5);
    result.set_kind(v1::AttemptResult::ANSWERED);
    spool_.Keep(result);
  }
  Start();
  ConnectTo("s");
  EXPECT_THAT(ResultIndexes(), ElementsAre(5));
  EXPECT_THAT(spool_.Indexes("s"), SizeIs(1));
}

// The coordinator at this address has another store than before. Its job 7 is another job.
TEST_F(RunnerSpoolTest, NothingOfOneStoreReachesAnother) {
  Start(2);
  ConnectTo("first");
  Lease(0, 3);
  LinkDown();
  Finish(Answer(calls_.started[0].id));  // 0 answered, 1 and 2 in flight
  LinkUp();
  link_.sent.clear();
  WelcomeOf("second");
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_THAT(calls_.aborted, SizeIs(2));
  EXPECT_EQ(runner_->held(), 0);
  EXPECT_EQ(runner_->unacknowledged(), 0);
  for (const CallId id : calls_.aborted) Finish(Broken(id, Transport::kAborted));
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
  // The same numbers again, which mean other requests.
  calls_.started.clear();
  Lease(0, 1);
  ASSERT_THAT(calls_.started, SizeIs(1));
  Finish(Answer(calls_.started[0].id));
  Advance(absl::Milliseconds(5));
  EXPECT_THAT(ResultIndexes(), ElementsAre(0));
  EXPECT_THAT(spool_.Indexes("first"), ElementsAre(0));
  EXPECT_THAT(spool_.Indexes("second"), ElementsAre(0));
  Acknowledge({Results()[0].sequence()});
  // And back: what waited for the first one is delivered to it.
  LinkDown();
  LinkUp();
  link_.sent.clear();
  WelcomeOf("first");
  EXPECT_THAT(ResultIndexes(), ElementsAre(0));
  Acknowledge({Results()[0].sequence()});
  EXPECT_TRUE(spool_.kept.empty());
}

TEST_F(RunnerSpoolTest, LeftBehindForAnotherStoreItWaits) {
  Start();
  ConnectTo("first");
  Lease(0, 1);
  Finish(Answer(calls_.started[0].id));
  Start();
  LinkUp();
  EXPECT_EQ(Hello().store(), "first");
  WelcomeOf("second");
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_TRUE(runner_->Idle());
  EXPECT_THAT(spool_.Indexes("first"), ElementsAre(0));
}

TEST_F(RunnerSpoolTest, WithoutASpoolResultsForAnotherStoreAreDropped) {
  Make(2);
  ConnectTo("first");
  Lease(0, 2);
  LinkDown();
  Finish(Answer(calls_.started[0].id));
  LinkUp();
  link_.sent.clear();
  WelcomeOf("second");
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_EQ(runner_->unacknowledged(), 0);
  EXPECT_THAT(calls_.aborted, SizeIs(1));
}

TEST_F(RunnerSpoolTest, ABlockedSpoolStartsNoCallAndSaysWhy) {
  Start(2);
  ConnectTo("s");
  Lease(0, 4);
  ASSERT_THAT(calls_.started, SizeIs(2));
  spool_.blocked = true;
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(LastReport().waiting_for(), "room on its disk");
  Finish(Answer(calls_.started[0].id));
  EXPECT_THAT(calls_.started, SizeIs(2));
  EXPECT_THAT(ResultIndexes(), ElementsAre(0)) << "what is in hand is delivered";
  spool_.blocked = false;
  Advance(absl::Milliseconds(1));
  EXPECT_THAT(calls_.started, SizeIs(3));
  EXPECT_EQ(LastReport().waiting_for(), "");
}

}  // namespace
}  // namespace nightshift
