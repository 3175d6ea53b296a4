#include "coordinator/core/model_sets.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

TEST(ModelSets, TheSameNamesInAnyOrderAreOneSet) {
  ModelSets sets;
  const int first = sets.Intern({"b", "a", "b"});
  EXPECT_EQ(sets.Intern({"a", "b"}), first);
  EXPECT_NE(sets.Intern({"a"}), first);
  EXPECT_NE(sets.Intern({"ab"}), first);
  EXPECT_EQ(sets.models(first), (std::vector<std::string>{"a", "b"}));
}

TEST(ModelSets, ABackendMustHaveAllModelsOfTheJob) {
  ModelSets sets;
  const int both = sets.Intern({"a", "b"});
  EXPECT_TRUE(sets.Serves({"c", "b", "a"}, both));
  EXPECT_FALSE(sets.Serves({"a"}, both));
}

TEST(ModelSets, ABackendWithoutAListServesAnyAndAJobWithoutModelsGoesAnywhere) {
  ModelSets sets;
  EXPECT_TRUE(sets.Serves({}, sets.Intern({"a"})));
  EXPECT_TRUE(sets.Serves({"x"}, sets.Intern({})));
}

}  // namespace
}  // namespace nightshift
