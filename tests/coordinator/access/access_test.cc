#include "coordinator/access/access.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

class AccessTest : public testing::Test {
 protected:
  void WriteFile(const std::string& text) {
    // Under another name first: it is never seen half.
    std::ofstream(folder_ / "next") << text;
    std::filesystem::rename(folder_ / "next", path_);
  }
  std::unique_ptr<Access> Make(TenantLimits limits = {}) {
    auto access = Access::Create({path_, limits}, clock_);
    EXPECT_TRUE(access.ok()) << access.status();
    return *std::move(access);
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "tokens";
  FakeClock clock_;
};

TEST_F(AccessTest, WithoutAFileEverybodyMayDoEverything) {
  const auto access = *Access::Create({}, clock_);
  const auto caller = access->Admit("");
  ASSERT_TRUE(caller.ok());
  for (const Role role : {Role::kRead, Role::kSubmit, Role::kAdmin, Role::kWorker}) {
    EXPECT_TRUE(caller->May(role));
  }
  EXPECT_TRUE(caller->Sees("anybody"));
}

TEST_F(AccessTest, ARoleIsForWhatIsBelowIt) {
  const Role roles[] = {Role::kRead, Role::kSubmit, Role::kAdmin, Role::kWorker};
  const bool may[4][4] = {{true, false, false, false},
                          {true, true, false, false},
                          {true, true, true, true},
                          {false, false, false, true}};
  for (int role = 0; role < 4; ++role) {
    for (int needed = 0; needed < 4; ++needed) {
      Caller caller;
      caller.role = roles[role];
      EXPECT_EQ(caller.May(roles[needed]), may[role][needed])
          << RoleWord(roles[role]) << " for " << RoleWord(roles[needed]);
    }
  }
}

TEST_F(AccessTest, AChangedFileCountsWithinASecond) {
  const NewToken old = MakeToken(Role::kSubmit, "a", "", 0);
  const NewToken next = MakeToken(Role::kRead, "b", "", 0);
  WriteFile(PrintTokenTable({old.entry}));
  const auto access = Make();
  ASSERT_TRUE(access->Admit(old.token).ok());
  EXPECT_FALSE(access->Admit(old.token)->Sees("b"));
  EXPECT_TRUE(absl::IsUnauthenticated(access->Admit(next.token).status()));
  WriteFile(PrintTokenTable({next.entry}));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(absl::IsUnauthenticated(access->Admit(old.token).status()));
  ASSERT_TRUE(access->Admit(next.token).ok());
  EXPECT_EQ(access->Admit(next.token)->tenant, "b");
}

// An editor's slip at night must not lock everybody out.
TEST_F(AccessTest, AFileThatMakesNoSenseLeavesTheTokensInForce) {
  const NewToken token = MakeToken(Role::kSubmit, "a", "", 0);
  const std::string good = PrintTokenTable({token.entry});
  WriteFile(good);
  const auto access = Make();
  for (const std::string& bad : {good + "nonsense\n", std::string()}) {
    WriteFile(bad);
    clock_.Advance(absl::Seconds(2));
    EXPECT_TRUE(access->Admit(token.token).ok());
  }
  std::remove(path_.c_str());
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(access->Admit(token.token).ok());
  EXPECT_FALSE(Access::Create({path_, {}}, clock_).ok()) << "but nobody starts without it";
  WriteFile(PrintTokenTable({}));
  clock_.Advance(absl::Seconds(2));
  EXPECT_FALSE(access->Admit(token.token).ok()) << "an empty table lets nobody in";
}

TEST_F(AccessTest, TheTimeToWaitIsTheTruth) {
  const NewToken token = MakeToken(Role::kSubmit, "a", "", 0);
  WriteFile(PrintTokenTable({token.entry}));
  const auto access = Make({.requests_per_second = 4});
  const Caller caller = *access->Admit(token.token);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(access->Throttle(caller), absl::ZeroDuration()) << i;
  const absl::Duration wait = access->Throttle(caller);
  EXPECT_EQ(wait, absl::Milliseconds(250));
  clock_.Advance(wait - absl::Milliseconds(1));
  EXPECT_GT(access->Throttle(caller), absl::ZeroDuration());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(access->Throttle(caller), absl::ZeroDuration());
  EXPECT_GT(access->Throttle(caller), absl::ZeroDuration());
  Caller other = caller;
  other.tenant = "b";
  EXPECT_EQ(access->Throttle(other), absl::ZeroDuration()) << "each tenant has its own";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(access->Throttle(Caller()), absl::ZeroDuration());
}

TEST_F(AccessTest, AnErrorOfALimitSaysHowLong) {
  const absl::Status status = TenantLimitError("too much.", absl::Milliseconds(1500));
  EXPECT_EQ(TenantRetryAfter(status), absl::Milliseconds(1500));
  EXPECT_EQ(status.message(), "limit of the tenant: too much. Try again in 2 s.");
  EXPECT_EQ(TenantRetryAfter(TenantLimitError("Never.", absl::InfiniteDuration())),
            absl::InfiniteDuration());
  EXPECT_FALSE(TenantRetryAfter(absl::ResourceExhaustedError("the disk is full")).has_value());
}

}  // namespace
}  // namespace nightshift
