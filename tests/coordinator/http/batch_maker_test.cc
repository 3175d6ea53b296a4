#include "coordinator/http/batch_maker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

class BatchMakerTest : public testing::Test {
 protected:
  BatchMakerTest()
      : store_(NewMemoryStore()),
        world_(*store_),
        files_(*FileTable::Open(*store_, world_.clock(), folder_ / "files")),
        batches_(*BatchTable::Open(*store_, world_.clock())) {
    std::filesystem::create_directory(folder_ / "tmp");
  }

  std::string Upload(const std::string& content) {
    auto upload = *files_->Begin({});
    EXPECT_TRUE(upload->Write(content).ok());
    return upload->Finish("in.jsonl", "batch", 0)->id();
  }

  std::string NewBatch(const std::string& file) {
    v1::BatchRecord record;
    record.set_input_file_id(file);
    record.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    record.set_window_ms(86'400'000);
    bool created = false;
    return batches_->Create(record, false, &created, absl::OkStatus)->id();
  }

  TempFolder folder_;
  std::unique_ptr<Store> store_;
  JobWorld world_;
  std::unique_ptr<FileTable> files_;
  std::unique_ptr<BatchTable> batches_;
};

// As many as there are threads cannot be read just now, for long: the next one is made all the
// same.
TEST_F(BatchMakerTest, BatchesThatFailDoNotHoldUpTheOthers) {
  const std::string line = R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions",)"
                           R"("body":{"model":"m","messages":[{"role":"user","content":"x"}]}})";
  std::vector<std::string> bad;
  for (int i = 0; i < kBatchMakers; ++i) {
    const std::string file = Upload(absl::StrCat(line, "\n"));
    bad.push_back(NewBatch(file));
    // Opens, and cannot be read.
    std::filesystem::remove(folder_ / absl::StrCat("files/", file));
    std::filesystem::create_directory(folder_ / absl::StrCat("files/", file));
  }
  const std::string good = NewBatch(Upload(absl::StrCat(line, "\n")));
  BatchMaker maker({store_.get(), &world_.dispatcher(), &world_.committer(), &world_.clock(),
                    files_.get(), batches_.get(), folder_ / "tmp"});
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (batches_->Find(good)->phase() != v1::BATCH_PHASE_MADE && absl::Now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(batches_->Find(good)->phase(), v1::BATCH_PHASE_MADE);
  for (const std::string& id : bad) {
    EXPECT_EQ(batches_->Find(id)->phase(), v1::BATCH_PHASE_VALIDATING);
  }
  maker.Stop();
}

}  // namespace
}  // namespace nightshift
