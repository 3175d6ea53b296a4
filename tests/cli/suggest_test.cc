#include "client/cli/suggest.h"

#include "gtest/gtest.h"

namespace nightshift {
namespace {

TEST(NearestTest, FindsWhatWasMeant) {
  EXPECT_EQ(Nearest("sttaus", {"submit", "status", "run"}), "status");
  EXPECT_EQ(Nearest("jsno", {"json", "color"}), "json");
  EXPECT_EQ(Nearest("max-token", {"max-tokens", "max-attempts"}), "max-tokens");
}

TEST(NearestTest, ACutWordPointsToTheWholeOne) {
  EXPECT_EQ(Nearest("coord", {"config", "coordinator"}), "coordinator");
}

TEST(NearestTest, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(Nearest("frobnicate", {"run", "status", "jobs"}), "");
  EXPECT_EQ(Nearest("x", {"run", "jobs"}), "");
}

}  // namespace
}  // namespace nightshift
