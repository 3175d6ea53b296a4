// The runner and the coordinator's stream: greeting, loss, sending again, draining.
#include <gmock/gmock.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "tests/worker/core/runner_fixture.h"

namespace nightshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class RunnerStreamTest : public RunnerTest {
 protected:
  const v1::Hello& LastHello() const {
    for (auto it = link_.sent.rbegin(); it != link_.sent.rend(); ++it) {
      if (it->has_hello()) return it->hello();
    }
    ADD_FAILURE() << "no Hello was sent";
    return v1::Hello::default_instance();
  }
  std::vector<uint64_t> Sequences() const {
    std::vector<uint64_t> sequences;
    for (const v1::AttemptResult& result : Results()) sequences.push_back(result.sequence());
    return sequences;
  }
};

TEST_F(RunnerStreamTest, GreetsWithWhoItIs) {
  Make();
  LinkUp();
  ASSERT_EQ(link_.sent.size(), 1u);
  const v1::Hello& hello = LastHello();
  EXPECT_EQ(hello.protocol(), "nightshift.v1");
  EXPECT_EQ(hello.name(), "host-1");
  EXPECT_EQ(hello.session(), "s1");
  EXPECT_EQ(hello.version(), "0.1.0");
  ASSERT_EQ(hello.backends_size(), 1);
  EXPECT_EQ(hello.backends(0).name(), "b");
  EXPECT_EQ(hello.held_size(), 0);
}

TEST_F(RunnerStreamTest, SaysNothingBetweenHelloAndWelcome) {
  Connect(1);
  Lease(0, 3);
  LinkDown();
  LinkUp();
  link_.sent.clear();
  Finish(Answer(calls_.started[0].id));
  Advance(absl::Seconds(5));
  runner_->OnWritable(Now());
  Finish(HttpError(calls_.started[1].id, 401));
  EXPECT_THAT(link_.sent, IsEmpty());
  Welcome();
  EXPECT_EQ(Results().size(), 1u);
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(1, 2));
  EXPECT_EQ(LastReport().info().state(), "refused");
}

TEST_F(RunnerStreamTest, HelloNamesWhatIsHeld) {
  Connect(1);
  Lease(10, 3);
  Finish(Answer(calls_.started[0].id));          // 10 answered, 11 in flight, 12 buffered
  Finish(HttpError(calls_.started[1].id, 429));  // 11 waits, 12 in flight
  LinkDown();
  LinkUp();
  const v1::Hello& hello = LastHello();
  ASSERT_EQ(hello.held_size(), 3);
  EXPECT_EQ(hello.held(0).key().index(), 11u);
  EXPECT_FALSE(hello.held(0).answered());
  EXPECT_EQ(hello.held(0).backend(), "b");
  EXPECT_EQ(hello.held(1).key().index(), 12u);
  EXPECT_FALSE(hello.held(1).answered());
  EXPECT_EQ(hello.held(2).key().index(), 10u);
  EXPECT_TRUE(hello.held(2).answered());
  EXPECT_EQ(hello.held(2).backend(), "b");
}

TEST_F(RunnerStreamTest, HelloNamesARequestOnce) {
  Connect(2);
  Lease(0, 1);
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  Lease(0, 1);  // again, before the first attempt's result was acknowledged
  LinkDown();
  LinkUp();
  ASSERT_EQ(LastHello().held_size(), 1);
  EXPECT_FALSE(LastHello().held(0).answered());
  Finish(Broken(calls_.started[1].id, Transport::kReset));
  LinkDown();
  LinkUp();
  ASSERT_EQ(LastHello().held_size(), 1);
  EXPECT_TRUE(LastHello().held(0).answered());
}

TEST_F(RunnerStreamTest, SendsUnacknowledgedResultsAgainInOrder) {
  Connect(4);
  Lease(0, 4);
  for (int i = 0; i < 4; ++i) Finish(Answer(calls_.started[i].id));
  Advance(absl::Milliseconds(5));
  EXPECT_THAT(Sequences(), ElementsAre(1, 2, 3, 4));
  Acknowledge({2});
  LinkDown();
  LinkUp();
  link_.sent.clear();
  Welcome();
  Advance(absl::Milliseconds(5));
  EXPECT_THAT(Sequences(), ElementsAre(1, 3, 4));
  Acknowledge({1, 3, 4});
  EXPECT_TRUE(runner_->Idle());
  LinkDown();
  LinkUp();
  link_.sent.clear();
  Welcome();
  EXPECT_THAT(Sequences(), IsEmpty());
}

TEST_F(RunnerStreamTest, DropsWhatIsNoLongerWanted) {
  Connect(2);
  Lease(0, 5);
  Finish(Answer(calls_.started[0].id));  // 0 answered; 1, 2 in flight; 3, 4 buffered
  LinkDown();
  LinkUp();
  link_.sent.clear();
  Welcome({0, 1, 3});
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started[1].id));
  EXPECT_EQ(runner_->held(), 2);
  Finish(Broken(calls_.started[1].id, Transport::kAborted));
  EXPECT_EQ(calls_.started.back().body, "body 4");
}

TEST_F(RunnerStreamTest, GoesOnCallingWithoutAStream) {
  Connect(1);
  Lease(0, 3);
  LinkDown();
  Finish(Answer(calls_.started[0].id));
  EXPECT_EQ(calls_.started.size(), 2u);
  Finish(HttpError(calls_.started[1].id, 429));
  EXPECT_EQ(calls_.started.size(), 3u);
  Advance(absl::Seconds(2));
  Finish(Answer(calls_.started[2].id));
  EXPECT_EQ(calls_.started.size(), 4u);
  LinkUp();
  link_.sent.clear();
  Welcome();
  EXPECT_THAT(Sequences(), ElementsAre(1, 2));
}

// By then the coordinator has given them to others.
TEST_F(RunnerStreamTest, StartsNothingOnceItsLeasesHaveLapsed) {
  Connect(2);
  Lease(0, 6);
  LinkDown();
  Advance(absl::Seconds(7));
  Finish(Answer(calls_.started[0].id));
  ASSERT_EQ(calls_.started.size(), 3u);
  Advance(absl::Seconds(2));
  Finish(Answer(calls_.started[1].id));
  EXPECT_EQ(calls_.started.size(), 3u);
  EXPECT_EQ(runner_->unacknowledged(), 2) << "the calls in flight end and their results are kept";
  // A stream that is not welcomed renews nothing.
  LinkUp();
  LinkDown();
  Finish(Answer(calls_.started[2].id));
  EXPECT_EQ(calls_.started.size(), 3u);
  LinkUp();
  Welcome({3});
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 1", "body 2", "body 4", "body 5"));
}

// A coordinator that tells no grace keeps requests for the time to live.
TEST_F(RunnerStreamTest, WithoutAGraceTheTimeToLiveCounts) {
  Make(1);
  LinkUp();
  v1::CoordinatorMessage welcome;
  welcome.mutable_welcome()->set_lease_ttl_ms(30'000);
  runner_->OnMessage(std::move(welcome), Now());
  Lease(0, 3);
  LinkDown();
  Advance(absl::Seconds(29));
  Finish(Answer(calls_.started[0].id));
  EXPECT_EQ(calls_.started.size(), 2u);
  Advance(absl::Seconds(2));
  Finish(Answer(calls_.started[1].id));
  EXPECT_EQ(calls_.started.size(), 2u);
}

// Stopped and woken, it finds answers, and free slots for what others may have by now; the stream
// still looks sound.
TEST_F(RunnerStreamTest, AfterStandingStillItAsksWhatIsItsOwnBeforeItCalls) {
  Connect(2);
  Lease(0, 6);
  clock_.Advance(absl::Seconds(60));
  Finish(Answer(calls_.started[0].id));
  EXPECT_EQ(calls_.started.size(), 2u);
  EXPECT_EQ(link_.reopened, 1);
  EXPECT_THAT(Results(), IsEmpty()) << "nothing is said on the stream that is given up";
  Finish(Answer(calls_.started[1].id));
  Lease(10, 1);  // was under way on it
  EXPECT_EQ(calls_.started.size(), 2u);
  EXPECT_EQ(link_.reopened, 1);
  LinkDown();
  LinkUp();
  EXPECT_EQ(LastHello().held_size(), 6) << "without the lease that came too late";
  Welcome({2, 3});
  EXPECT_EQ(Results().size(), 2u) << "its answers are worth something still";
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 1", "body 4", "body 5"));
}

TEST_F(RunnerStreamTest, AWelcomeFromBeforeItStoodStillRenewsNothing) {
  Connect(1);
  Lease(0, 3);
  LinkDown();
  LinkUp();
  clock_.Advance(absl::Seconds(60));
  Welcome({0, 1});
  Finish(Broken(calls_.started[0].id, Transport::kAborted));
  EXPECT_EQ(calls_.started.size(), 1u);
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started[0].id)) << "but what it takes is taken";
  LinkDown();
  LinkUp();
  ASSERT_EQ(LastHello().held_size(), 1);
  EXPECT_EQ(LastHello().held(0).key().index(), 2u);
  Welcome();
  EXPECT_EQ(calls_.started.size(), 2u);
}

// However little happens, it does not seem to have stood still.
TEST_F(RunnerStreamTest, AnIdleWorkerKeepsItsStream) {
  Connect(1);
  link_.slow = true;
  Lease(0, 1);
  link_.backlog = 9;  // no report can go out
  Advance(absl::Minutes(10));
  EXPECT_EQ(link_.reopened, 0);
}

TEST_F(RunnerStreamTest, WhatIsHandedBackWithoutAStreamIsMissingFromTheNextHello) {
  Connect(1);
  Lease(0, 3);
  LinkDown();
  Finish(HttpError(calls_.started[0].id, 401));
  EXPECT_EQ(runner_->held(), 0);
  LinkUp();
  EXPECT_EQ(LastHello().held_size(), 0);
  link_.sent.clear();
  Welcome();
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
}

TEST_F(RunnerStreamTest, ASecondStreamReplacesTheFirst) {
  Connect(1);
  Lease(0, 1);
  Finish(Answer(calls_.started[0].id));
  LinkUp();
  link_.sent.clear();
  Advance(absl::Seconds(3));
  EXPECT_THAT(link_.sent, IsEmpty()) << "not welcomed yet";
  Welcome();
  EXPECT_THAT(Sequences(), ElementsAre(1));
}

TEST_F(RunnerStreamTest, ResultsThatComeTogetherShareAMessage) {
  Connect(10);
  Lease(0, 10);
  Finish(Answer(calls_.started[0].id));
  EXPECT_THAT(Sequences(), ElementsAre(1)) << "a lone result goes at once";
  link_.sent.clear();
  for (int i = 1; i < 10; ++i) Finish(Answer(calls_.started[i].id));
  EXPECT_THAT(Sequences(), IsEmpty());
  EXPECT_LE(runner_->OnTimer(Now()), Now() + absl::Milliseconds(5)) << "somebody has to wake up";
  Advance(absl::Milliseconds(5));
  ASSERT_EQ(link_.sent.back().results().results_size(), 9);
}

TEST_F(RunnerStreamTest, ManyResultsNeedNoCompany) {
  Connect(300);
  Lease(0, 300);
  for (int i = 0; i < 300; ++i) Finish(Answer(calls_.started[i].id));
  EXPECT_EQ(Sequences().size(), 1u + 256u);
}

TEST_F(RunnerStreamTest, DrainingWorkerSendsResultsAtOnce) {
  Connect(10);
  Lease(0, 10);
  for (int i = 0; i < 4; ++i) Finish(Answer(calls_.started[i].id));
  runner_->Drain("the machine is going down", Now());
  EXPECT_THAT(Sequences(), ElementsAre(1, 2, 3, 4));
  Finish(Answer(calls_.started[4].id));
  EXPECT_THAT(Sequences(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(RunnerStreamTest, ResultsGatherWhileTheStreamIsBusy) {
  Connect(10);
  Lease(0, 10);
  link_.slow = true;
  Finish(Answer(calls_.started[0].id));
  for (int i = 1; i < 10; ++i) {
    Advance(absl::Milliseconds(1));
    Finish(Answer(calls_.started[i].id));
  }
  // Two messages keep the stream busy; the other results wait.
  const auto first = static_cast<int>(Sequences().size());
  EXPECT_LT(first, 10);
  Advance(absl::Milliseconds(10));
  EXPECT_EQ(Sequences().size(), static_cast<size_t>(first));
  link_.backlog = 0;
  runner_->OnWritable(Now());
  EXPECT_EQ(link_.sent.back().results().results_size(), 10 - first);
  EXPECT_THAT(Sequences(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST_F(RunnerStreamTest, MessagesAreClosedAtTheirLimits) {
  RunnerOptions options = Options(10);
  options.results_per_message_max = 3;
  Make(std::move(options));
  LinkUp();
  Welcome();
  Lease(0, 8);
  LinkDown();
  for (int i = 0; i < 8; ++i) Finish(Answer(calls_.started[i].id));
  LinkUp();
  link_.sent.clear();
  Welcome();
  Advance(absl::Milliseconds(5));
  std::vector<int> sizes;
  for (const v1::WorkerMessage& message : link_.sent) {
    if (message.has_results()) sizes.push_back(message.results().results_size());
  }
  EXPECT_THAT(sizes, ElementsAre(3, 3, 2));
}

TEST_F(RunnerStreamTest, ARefusalIsNoReasonToForget) {
  Connect(1);
  Lease(0, 1);
  v1::CoordinatorMessage message;
  message.mutable_refuse()->set_why("another protocol");
  runner_->OnMessage(std::move(message), Now());
  runner_->OnMessage(v1::CoordinatorMessage(), Now());
  EXPECT_EQ(runner_->held(), 1);
}

TEST_F(RunnerStreamTest, DrainHandsBackWhatIsNotStartedAndFinishesTheRest) {
  Connect(2);
  Lease(0, 5);
  Finish(HttpError(calls_.started[0].id, 429));  // 0 waits; 1, 2 in flight; 3, 4 buffered
  link_.sent.clear();
  runner_->Drain("the machine is going down", Now());
  ASSERT_GE(link_.sent.size(), 2u);
  EXPECT_EQ(link_.sent[0].drain().why(), "the machine is going down");
  EXPECT_EQ(link_.sent[1].returned().why(), "the machine is going down");
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 3, 4));
  EXPECT_EQ(LastReport().limit(), 0);
  EXPECT_FALSE(runner_->Idle());
  Lease(20, 1);
  EXPECT_EQ(ReturnedIndexes().back(), 20u);
  Finish(Answer(calls_.started[1].id));
  // Put off while draining: not waited for.
  Finish(HttpError(calls_.started[2].id, 429));
  EXPECT_EQ(ReturnedIndexes().back(), 2u);
  EXPECT_EQ(runner_->in_flight(), 0);
  EXPECT_FALSE(runner_->Idle()) << "a result waits for its acknowledgement";
  Acknowledge({1});
  EXPECT_TRUE(runner_->Idle());
  EXPECT_EQ(calls_.started.size(), 3u);
}

TEST_F(RunnerStreamTest, AStaleConnectionWhileDrainingGoesBack) {
  Connect(1);
  Lease(0, 1);
  runner_->Drain("bye", Now());
  Finish(Broken(calls_.started[0].id, Transport::kStaleConnection));
  EXPECT_EQ(calls_.started.size(), 1u);
  EXPECT_THAT(ReturnedIndexes(), ElementsAre(0));
}

TEST_F(RunnerStreamTest, SaysOnANewStreamThatItIsDraining) {
  Connect(1);
  Lease(0, 2);
  LinkDown();
  runner_->Drain("bye", Now());
  runner_->Drain("bye again", Now());
  LinkUp();
  ASSERT_EQ(LastHello().held_size(), 1);
  EXPECT_EQ(LastHello().held(0).key().index(), 0u);
  link_.sent.clear();
  Welcome();
  ASSERT_FALSE(link_.sent.empty());
  EXPECT_EQ(link_.sent[0].drain().why(), "bye");
}

TEST_F(RunnerStreamTest, AbortAllGivesUpTheCallsAndHandsThemBack) {
  Connect(2);
  Lease(0, 3);
  runner_->AbortAll(Now());
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started[0].id, calls_.started[1].id));
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(runner_->held(), 0);
  EXPECT_FALSE(runner_->Idle()) << "the calls have not ended yet";
  Finish(Broken(calls_.started[0].id, Transport::kAborted));
  Finish(Answer(calls_.started[1].id));
  EXPECT_TRUE(runner_->Idle());
  EXPECT_THAT(Results(), IsEmpty());
}

// By these the coordinator tells a failure that it has charged already, and one that is out of
// date.
TEST_F(RunnerStreamTest, ResultsSayWhichAttemptOfWhichRunTheyEnd) {
  Connect(2);
  Lease(0, 2, "b", 3, 2);
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].attempt(), 3);
  EXPECT_EQ(Results()[0].run(), 2);
  LinkDown();
  LinkUp();
  const v1::Hello& hello = LastHello();
  ASSERT_EQ(hello.held_size(), 2);
  for (const v1::HeldRequest& held : hello.held()) {
    EXPECT_EQ(held.attempt(), 3);
    EXPECT_EQ(held.run(), 2);
  }
  EXPECT_EQ(hello.held(0).kind(), v1::AttemptResult::UNSPECIFIED);
  EXPECT_EQ(hello.held(1).kind(), v1::AttemptResult::RETRY);
}

// It had been given to others, who failed with it: what is under way here is now the next attempt.
TEST_F(RunnerStreamTest, ALeaseOfWhatIsHeldRenewsItsNumbers) {
  Connect(1);
  Lease(0, 1);
  Lease(0, 1, "b", 2, 1);
  EXPECT_EQ(calls_.started.size(), 1u);
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].attempt(), 2);
}

TEST_F(RunnerStreamTest, ARejectionOfAnEarlierRunGivesWayToANewLease) {
  Connect(1);
  Lease(0, 1);
  Finish(HttpError(calls_.started[0].id, 400, "no"));
  Lease(0, 1, "b", 0, 1);
  EXPECT_EQ(calls_.started.size(), 1u) << "it is answered";
  Lease(0, 1, "b", 0, 2);
  ASSERT_EQ(calls_.started.size(), 2u);
  Finish(Answer(calls_.started[1].id));
  Advance(absl::Milliseconds(5));
  ASSERT_EQ(Results().size(), 2u);
  EXPECT_EQ(Results()[1].run(), 2);
  EXPECT_EQ(runner_->unacknowledged(), 1);
}

// Its model is not there: the coordinator sends it to the worker's other backend before it has
// acknowledged the rejection.
TEST_F(RunnerStreamTest, ARejectionOfAnEarlierAttemptGivesWayToANewLease) {
  Connect(1);
  Lease(0, 1);
  Finish(HttpError(calls_.started[0].id, 404, "the model does not exist"));
  Lease(0, 1, "b", 1);
  ASSERT_EQ(calls_.started.size(), 2u);
  Finish(Answer(calls_.started[1].id));
  Advance(absl::Milliseconds(5));
  ASSERT_EQ(Results().size(), 2u);
  EXPECT_EQ(Results()[1].attempt(), 1);
  EXPECT_EQ(runner_->unacknowledged(), 1);
}

TEST_F(RunnerStreamTest, ARecallTakesWhatWouldStartLast) {
  Connect(2);
  Lease(0, 6);
  v1::CoordinatorMessage recall;
  recall.mutable_recall()->set_backend("b");
  recall.mutable_recall()->set_count(3);
  link_.sent.clear();
  runner_->OnMessage(recall, Now());
  EXPECT_EQ(ReturnedIndexes(), (std::vector<uint64_t>{5, 4, 3}));
  // A report follows, so that it can be given more.
  ASSERT_EQ(Reports().size(), 1u);
  EXPECT_EQ(LastReport().buffered(), 1);
  EXPECT_EQ(LastReport().limit(), 2);
  // What is under way stays, however many are wanted.
  recall.mutable_recall()->set_count(100);
  link_.sent.clear();
  runner_->OnMessage(recall, Now());
  EXPECT_EQ(ReturnedIndexes(), (std::vector<uint64_t>{2}));
  EXPECT_EQ(runner_->in_flight(), 2);
  EXPECT_TRUE(calls_.aborted.empty());
  recall.mutable_recall()->set_backend("no such");
  runner_->OnMessage(recall, Now());
}

// They would be refused again and again here, while others have nothing to do.
TEST_F(RunnerStreamTest, ARecallTakesWhatWasRefusedAsWell) {
  Connect(2);
  Lease(0, 2);
  Finish(HttpError(calls_.started[0].id, 429));
  Finish(HttpError(calls_.started[1].id, 429));
  v1::CoordinatorMessage recall;
  recall.mutable_recall()->set_backend("b");
  recall.mutable_recall()->set_count(100);
  link_.sent.clear();
  runner_->OnMessage(recall, Now());
  std::vector<uint64_t> returned = ReturnedIndexes();
  std::sort(returned.begin(), returned.end());
  EXPECT_EQ(returned, (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerStreamTest, HigherPrioritiesStartFirst) {
  Connect(1);
  Lease(0, 3);
  v1::CoordinatorMessage urgent;
  urgent.mutable_lease()->set_backend("b");
  for (const uint64_t index : {10, 11}) {
    v1::LeasedRequest& request = *urgent.mutable_lease()->add_requests();
    SetKey(request.mutable_key(), index);
    request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    request.set_body(absl::StrCat("body ", index));
    request.set_priority(5);
  }
  runner_->OnMessage(urgent, Now());
  Lease(3, 1);
  for (int i = 0; i < 5; ++i) Finish(Answer(calls_.started.back().id));
  EXPECT_EQ(Started(), (std::vector<std::string>{"body 0", "body 10", "body 11", "body 1", "body 2",
                                                 "body 3"}));
}

}  // namespace
}  // namespace nightshift
