#include "coordinator/core/job_id.h"

#include <gtest/gtest.h>

#include <set>

namespace nightshift {
namespace {

TEST(JobId, HasTheFormThatPeopleAreTold) {
  Random random(3);
  const absl::Time wall = absl::FromUnixSeconds(1790000000);
  std::set<std::string> ids;
  std::set<std::string> beginnings;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = NewJobId(wall, random);
    ASSERT_EQ(id.size(), kJobIdPrefix.size() + kJobIdChars);
    ASSERT_EQ(id.substr(0, 4), "job_");
    ASSERT_EQ(id.find_first_not_of("0123456789abcdefghjkmnpqrstvwxyz", 4), std::string::npos);
    ids.insert(id);
    beginnings.insert(id.substr(0, kJobIdPrefix.size() + kJobIdCharsMin));
  }
  EXPECT_EQ(ids.size(), 2000u);
  // Jobs of the same second can be told apart by their first characters.
  EXPECT_GE(beginnings.size(), 1990u);
}

TEST(JobId, TheSameChanceAtAnotherTimeIsAnotherId) {
  Random a(3), b(3);
  EXPECT_NE(NewJobId(absl::FromUnixSeconds(100), a), NewJobId(absl::FromUnixSeconds(101), b));
}

}  // namespace
}  // namespace nightshift
