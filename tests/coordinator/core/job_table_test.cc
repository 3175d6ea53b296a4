#include "coordinator/core/job_table.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

class JobTableTest : public ::testing::Test {
 protected:
  Job* Add(JobNumber number, const std::string& id, const std::string& token = "") {
    auto job = std::make_unique<Job>();
    job->number = number;
    job->record.set_id(id);
    job->record.set_idempotency_token(token);
    job->queue = std::make_unique<PendingQueue>(1);
    return table_.Add(std::move(job));
  }
  JobTable table_;
};

TEST_F(JobTableTest, FindsAWholeIdAndAUniqueBeginning) {
  Add(1, "job_aaaaaa111111");
  Add(2, "job_aaaaab222222");
  EXPECT_EQ(*table_.FindId("job_aaaaaa111111"), 1u);
  EXPECT_EQ(*table_.FindId("job_aaaaab"), 2u);
  EXPECT_EQ(*table_.FindId("job_aaaaaa11"), 1u);
}

TEST_F(JobTableTest, AnAmbiguousBeginningIsInvalid) {
  Add(1, "job_aaaaaa111111");
  Add(2, "job_aaaaaa222222");
  const auto found = table_.FindId("job_aaaaaa");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*table_.FindId("job_aaaaaa2"), 2u);
}

TEST_F(JobTableTest, TooShortOrOtherBeginningsAreNotFound) {
  Add(1, "job_aaaaaa111111");
  for (const char* id : {"job_aaaaa", "job_", "", "aaaaaa", "aaaaaa111111", "job_bbbbbb",
                         "job_zzzzzz", "job_aaaaaa1111112", "JOB_aaaaaa"}) {
    EXPECT_EQ(table_.FindId(id).status().code(), absl::StatusCode::kNotFound) << id;
  }
}

TEST_F(JobTableTest, AWholeIdWinsOverLongerOnes) {
  Add(1, "job_aaaaaa");
  Add(2, "job_aaaaaa222222");
  EXPECT_EQ(*table_.FindId("job_aaaaaa"), 1u);
}

TEST_F(JobTableTest, TokensFindTheirJobUntilItIsDeleted) {
  Add(1, "job_aaaaaa111111", "t");
  Add(2, "job_bbbbbb111111");
  EXPECT_EQ(table_.FindToken("t"), 1u);
  EXPECT_EQ(table_.FindToken(""), std::nullopt);
  table_.Erase(1);
  EXPECT_EQ(table_.FindToken("t"), std::nullopt);
  EXPECT_EQ(table_.Find(1), nullptr);
  EXPECT_FALSE(table_.FindId("job_aaaaaa111111").ok());
}

TEST_F(JobTableTest, ActiveMeansThatTheJobHasAQueue) {
  Job* job = Add(1, "job_aaaaaa111111");
  EXPECT_EQ(table_.active().size(), 1u);
  job->queue.reset();
  table_.UpdateActive(*job);
  EXPECT_TRUE(table_.active().empty());
}

}  // namespace
}  // namespace nightshift
