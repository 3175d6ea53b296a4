#include "coordinator/core/rate_shares.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

constexpr MonotonicTime kNow{1'000'000'000};

class RateSharesTest : public ::testing::Test {
 protected:
  // A worker with one backend on `account`, which has so many calls in flight and per second.
  Worker* Connect(const std::string& name, const std::string& account, int in_flight, double rate) {
    v1::Hello hello;
    hello.set_protocol("nightshift.v1");
    hello.set_name(name);
    hello.set_session(name);
    hello.add_backends()->set_name("b");
    Worker* const worker = *registry_.Hello(hello, kNow, absl::UnixEpoch());
    v1::Report report;
    v1::BackendReport& figures = *report.add_backends();
    figures.mutable_info()->set_name("b");
    figures.mutable_info()->set_account(account);
    figures.set_limit(8);
    figures.set_in_flight(in_flight);
    figures.set_requests_per_second(rate);
    registry_.Report(worker, report, kNow);
    return worker;
  }
  double Share(Worker* worker) {
    const v1::RateShares shares = shares_.Of(worker, registry_, now_);
    EXPECT_EQ(shares.shares_size(), 1);
    EXPECT_EQ(shares.shares(0).backend(), "b");
    return shares.shares(0).share();
  }

  MonotonicTime now_ = kNow;
  WorkerRegistry registry_;
  RateShares shares_;
};

TEST_F(RateSharesTest, OneAloneHasAllAndWithoutAnAccountNothingIsSaid) {
  EXPECT_EQ(Share(Connect("a", "x", 4, 10)), 1);
  EXPECT_EQ(Share(Connect("b", "y", 0, 0)), 1) << "idle, and alone";
  EXPECT_TRUE(shares_.Of(Connect("c", "", 4, 10), registry_, now_).shares().empty());
}

TEST_F(RateSharesTest, TheBusyOnesShareInPartByWhatTheyUse) {
  Worker* const a = Connect("a", "x", 4, 30);
  Worker* const b = Connect("b", "x", 4, 10);
  Connect("other", "y", 4, 1000);
  EXPECT_DOUBLE_EQ(Share(a), (0.5 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(Share(b), (0.5 + 0.25) / 2);
}

TEST_F(RateSharesTest, IdleOnesKeepALittleTogether) {
  Worker* const busy = Connect("a", "x", 4, 0);
  Worker* const idle = Connect("b", "x", 0, 7);
  Worker* const idle_too = Connect("c", "x", 0, 0);
  EXPECT_DOUBLE_EQ(Share(busy), 1 - kIdleShare);
  EXPECT_DOUBLE_EQ(Share(idle), kIdleShare / 2);
  EXPECT_DOUBLE_EQ(Share(idle_too), kIdleShare / 2);
}

TEST_F(RateSharesTest, WhoIsGoneLeavesItsShare) {
  Worker* const a = Connect("a", "x", 4, 0);
  Worker* const b = Connect("b", "x", 4, 0);
  EXPECT_EQ(Share(a), 0.5);
  registry_.StreamClosed(b, kNow);
  now_ = now_ + RateShares::kAddUpEvery;
  EXPECT_EQ(Share(a), 1);
  EXPECT_TRUE(shares_.Of(b, registry_, now_).shares().empty());
}

// Reports of a whole fleet come within one moment: each of those that ask has its part at once,
// though the fleet is not added up again for it.
TEST_F(RateSharesTest, WhoComesOrBecomesBusyIsCountedWhenItAsks) {
  Worker* const a = Connect("a", "x", 4, 0);
  EXPECT_EQ(Share(a), 1);
  Worker* const b = Connect("b", "x", 0, 0);
  EXPECT_EQ(Share(b), kIdleShare);
  EXPECT_EQ(Share(a), 1 - kIdleShare);
  Connect("b", "x", 4, 0);
  EXPECT_EQ(Share(b), 0.5);
  EXPECT_EQ(Share(a), 0.5);
  EXPECT_LE(Share(Connect("c", "x", 4, 30)), (1 / 3.0 + 1) / 2) << "its rate is not in the sum yet";
}

}  // namespace
}  // namespace nightshift
