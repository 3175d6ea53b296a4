#include "coordinator/core/route.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

v1::Route RouteOf(const std::vector<std::pair<std::string, double>>& shares,
                  const std::vector<std::string>& fallback = {}) {
  v1::Route route;
  for (const auto& [name, share] : shares) {
    route.add_shares()->set_backend(name);
    route.mutable_shares()->rbegin()->set_share(share);
  }
  for (const std::string& name : fallback) *route.add_fallback() = name;
  return route;
}

// The backends of `names` that serve the lane.
std::string Served(const Router& router, Lane lane, const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (router.Serves(lane, name)) out += name;
  }
  return out;
}

// How many of `count` requests begin with each of the backends.
std::map<std::string, int> Counted(const Router& router, int count,
                                   const std::vector<std::string>& names) {
  std::map<std::string, int> counted;
  for (int i = 0; i < count; ++i) {
    ++counted[Served(router, router.First(absl::StrCat("request-", i)), names)];
  }
  return counted;
}

TEST(CheckRouteTest, NamesWhatIsWrong) {
  EXPECT_TRUE(CheckRoute(RouteOf({})).ok());
  EXPECT_TRUE(CheckRoute(RouteOf({{"a", 0.3}, {"b", 0.7}}, {"b", "c"})).ok());
  EXPECT_FALSE(CheckRoute(RouteOf({{"a", 0}})).ok());
  EXPECT_FALSE(CheckRoute(RouteOf({{"a", -1}})).ok());
  EXPECT_FALSE(CheckRoute(RouteOf({{"a", 0.6}, {"b", 0.6}})).ok());
  EXPECT_FALSE(CheckRoute(RouteOf({{"a", 0.1}, {"a", 0.1}})).ok());
  EXPECT_FALSE(CheckRoute(RouteOf({{"", 0.1}})).ok());
  EXPECT_FALSE(CheckRoute(RouteOf({}, {"a", "a"})).ok());
  std::vector<std::string> many;
  for (int i = 0; i <= kRouteBackendsMax; ++i) many.push_back(absl::StrCat("b", i));
  EXPECT_FALSE(CheckRoute(RouteOf({}, many)).ok());
}

TEST(RouterTest, AShareIsMetAndTheRestGoesToTheOthers) {
  const Router router(RouteOf({{"n", 0.1}}));
  const std::map<std::string, int> counted = Counted(router, 100'000, {"n", "o", "p"});
  EXPECT_EQ(counted.size(), 2u);
  EXPECT_NEAR(counted.at("n"), 10'000, 300);
  EXPECT_NEAR(counted.at("op"), 90'000, 300);
}

TEST(RouterTest, AGrowingShareKeepsWhatItHad) {
  const Router ten(RouteOf({{"n", 0.1}}));
  const Router twenty(RouteOf({{"n", 0.2}}));
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = absl::StrCat("id-", i);
    EXPECT_TRUE(!ten.Serves(ten.First(id), "n") || twenty.Serves(twenty.First(id), "n")) << id;
  }
}

// The hash is part of what a job promises: another build must send the same requests.
TEST(RouterTest, TheHashIsTheSameForEver) {
  const Router router(RouteOf({{"n", 0.5}}));
  std::string sides;
  for (int i = 0; i < 16; ++i) {
    sides += router.Serves(router.First(absl::StrCat("request-", i)), "n") ? 'n' : 'o';
  }
  EXPECT_EQ(sides, "oooononnonoonooo");
}

TEST(RouterTest, WeightsShareOutAllAndFallBackToEachOther) {
  const Router router(RouteOf({{"a", 0.75}, {"b", 0.25}}));
  const std::map<std::string, int> counted = Counted(router, 100'000, {"a", "b", "c"});
  EXPECT_EQ(counted.size(), 2u);
  EXPECT_NEAR(counted.at("a"), 75'000, 500);
  for (int i = 0; i < 10; ++i) {
    const Lane first = router.First(absl::StrCat(i));
    const Lane second = router.Next(first);
    EXPECT_EQ(Served(router, second, {"a", "b", "c"}), router.Serves(first, "a") ? "bc" : "ac");
    EXPECT_EQ(router.Next(second), second);
  }
}

TEST(RouterTest, AFallbackIsGoneThroughInOrderAndEnds) {
  const Router router(RouteOf({}, {"a", "b", "c"}));
  Lane lane = router.First("x");
  EXPECT_EQ(Served(router, lane, {"a", "b", "c", "d"}), "a");
  lane = router.Next(lane);
  EXPECT_EQ(Served(router, lane, {"a", "b", "c", "d"}), "b");
  lane = router.Next(lane);
  EXPECT_EQ(Served(router, lane, {"a", "b", "c", "d"}), "c");
  EXPECT_EQ(router.Next(lane), lane);
}

TEST(RouterTest, ARolloutFallsBackToTheChainAndTheRestBeginsWithIt) {
  const Router router(RouteOf({{"n", 0.5}}, {"a", "b"}));
  for (int i = 0; i < 20; ++i) {
    const Lane first = router.First(absl::StrCat(i));
    const std::string name = Served(router, first, {"n", "a", "b"});
    EXPECT_TRUE(name == "n" || name == "a") << name;
    EXPECT_EQ(Served(router, router.Next(first), {"n", "a", "b"}), name == "n" ? "a" : "b");
  }
}

}  // namespace
}  // namespace nightshift
