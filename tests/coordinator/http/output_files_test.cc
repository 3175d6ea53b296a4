#include "coordinator/http/output_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

constexpr int kRequests = 70'000;

class OutputFilesTest : public testing::Test {
 protected:
  OutputFilesTest()
      : store_(NewMemoryStore()),
        world_(*store_),
        outputs_(*store_, world_.dispatcher(), stopping_) {}

  std::string Read(const OutputFileName& name, const v1::OutputFileRecord& measured, int64_t offset,
                   int64_t length) {
    auto source = outputs_.Read(name, measured, offset, length);
    EXPECT_TRUE(source.ok()) << source.status();
    std::string all;
    while (source.ok()) {
      const absl::StatusOr<absl::string_view> next = (*source)->Next();
      EXPECT_TRUE(next.ok()) << next.status();
      if (!next.ok() || next->empty()) break;
      all.append(next->data(), next->size());
    }
    return all;
  }

  std::unique_ptr<Store> store_;
  JobWorld world_;
  std::atomic<bool> stopping_{false};
  OutputFiles outputs_;
};

// More than one checkpoint and more than one chunk of the job: any part is that of the whole.
TEST_F(OutputFilesTest, APartIsThatOfTheWhole) {
  const JobNumber job = world_.SubmitJob(kRequests);
  const OutputFileName name = {world_.Status(job).id()};
  EXPECT_TRUE(absl::IsNotFound(outputs_.Measure(name).status())) << "it has not ended yet";
  ASSERT_TRUE(world_.FinishAll().ok());
  const auto measured = outputs_.Measure(name);
  ASSERT_TRUE(measured.ok()) << measured.status();
  const std::string whole =
      absl::StrCat(absl::StrJoin(world_.Lines(job, v1::ReadOutputRequest::RESULTS), "\n"), "\n");
  ASSERT_EQ(measured->bytes(), static_cast<int64_t>(whole.size()));
  EXPECT_EQ(measured->lines(), kRequests);
  EXPECT_GT(measured->checkpoints_size(), 2);
  EXPECT_EQ(Read(name, *measured, 0, measured->bytes()), whole);
  Random random(20261201);
  for (int round = 0; round < 20; ++round) {
    const auto offset = static_cast<int64_t>(random.Below(whole.size()));
    const int64_t length = 1 + static_cast<int64_t>(random.Below(whole.size() - offset) % 100'000);
    EXPECT_EQ(Read(name, *measured, offset, length), whole.substr(offset, length)) << offset;
  }
}

// A coordinator that ends must not wait until a large output has been read through.
TEST_F(OutputFilesTest, MeasuringGivesUpWhenTheServiceEnds) {
  const JobNumber job = world_.SubmitJob(3);
  ASSERT_TRUE(world_.FinishAll().ok());
  const OutputFileName name = {world_.Status(job).id()};
  stopping_ = true;
  EXPECT_TRUE(absl::IsUnavailable(outputs_.Measure(name).status()));
  stopping_ = false;
  EXPECT_TRUE(outputs_.Measure(name).ok()) << "nothing half measured is kept";
}

TEST_F(OutputFilesTest, WhatIsDeletedStaysDeleted) {
  const JobNumber job = world_.SubmitJob(3);
  ASSERT_TRUE(world_.FinishAll().ok());
  const OutputFileName name = {world_.Status(job).id()};
  ASSERT_TRUE(outputs_.Measure(name).ok());
  ASSERT_TRUE(outputs_.Delete(name).ok());
  EXPECT_TRUE(absl::IsNotFound(outputs_.Measure(name).status()));
  EXPECT_TRUE(absl::IsNotFound(outputs_.Measure({"job_000000000000"}).status()));
}

TEST(OutputFileIdTest, EveryNameHasOneId) {
  for (const OutputFileName& name :
       {OutputFileName{"job_0123456789ab", false, 1}, OutputFileName{"job_0123456789ab", true, 1},
        OutputFileName{"job_0123456789ab", true, 12}}) {
    const auto parsed = ParseOutputFileId(OutputFileId(name));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->job_id, name.job_id);
    EXPECT_EQ(parsed->errors, name.errors);
    EXPECT_EQ(parsed->run, name.run);
  }
  for (const char* id :
       {"file-0123456789ab", "file-0123456789ab-output-1", "file-0123456789ab-error-02",
        "file-0123456789ab-outputs", "file-0123456789ab-error-", "file-x-output"}) {
    EXPECT_FALSE(ParseOutputFileId(id).has_value()) << id;
  }
}

}  // namespace
}  // namespace nightshift
