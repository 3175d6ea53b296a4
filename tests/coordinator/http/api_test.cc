// The routes without a network, over a coordinator whose clock the test moves.
#include "coordinator/http/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/reopen.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TextBody final : public HttpBody {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}
  absl::Status Read(int64_t, absl::FunctionRef<absl::Status(absl::string_view)> take) override {
    return take(text_);
  }

 private:
  const std::string text_;
};

class ApiTest : public testing::Test {
 protected:
  ApiTest()
      : store_(NewMemoryStore()),
        world_(*store_),
        outputs_(*store_, world_.dispatcher(), stopping_) {
    files_ = *FileTable::Open(*store_, world_.clock(), folder_ / "files");
    batches_ = *BatchTable::Open(*store_, world_.clock());
    maker_ = std::make_unique<BatchMaker>(
        BatchMakerParts{store_.get(), &world_.dispatcher(), &world_.committer(), &world_.clock(),
                        files_.get(), batches_.get(), folder_.path()});
    api_ = std::make_unique<Api>(ApiParts{store_.get(), &world_.dispatcher(), &world_.committer(),
                                          &world_.clock(), files_.get(), batches_.get(),
                                          maker_.get(), &outputs_, &stopping_, access_.get()});
  }

  HttpReply Call(const std::string& method, const std::string& path, const std::string& body = "",
                 HttpFields headers = {}) {
    TextBody text(body);
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    request.body = &text;
    return api_->Handle(request);
  }

  std::string BatchOf(JobNumber job) {
    return Call("GET", absl::StrCat("/v1/batches/", BatchIdOfJob(world_.Status(job).id()))).body;
  }

  TempFolder folder_;
  std::unique_ptr<Store> store_;
  JobWorld world_;
  std::atomic<bool> stopping_{false};
  const std::unique_ptr<Access> access_ = *Access::Create({}, Clock::Real());
  OutputFiles outputs_;
  std::unique_ptr<FileTable> files_;
  std::unique_ptr<BatchTable> batches_;
  std::unique_ptr<BatchMaker> maker_;
  std::unique_ptr<Api> api_;
};

// The file goes after thirty days; the batch, and the job with its lines, stay.
TEST_F(ApiTest, AnOutputExpiresWhileItsBatchLivesOn) {
  const JobNumber job = world_.SubmitJob(3);
  ASSERT_TRUE(world_.FinishAll().ok());
  const std::string file =
      absl::StrCat("/v1/files/", OutputFileId({world_.Status(job).id(), false, 1}));
  EXPECT_EQ(Call("GET", file).status, 200);
  const absl::Time finished = absl::FromUnixMillis(world_.Status(job).finished_at_ms());
  const absl::Time end = finished + absl::Seconds(kOutputLifetimeSeconds);
  world_.clock().Advance(end - absl::Seconds(1) - world_.clock().WallNow());
  EXPECT_EQ(Call("GET", file).status, 200);
  world_.clock().Advance(absl::Seconds(1));
  const HttpReply gone = Call("GET", absl::StrCat(file, "/content"));
  EXPECT_EQ(gone.status, 404);
  EXPECT_THAT(gone.body, HasSubstr("No such File object"));
  EXPECT_THAT(Call("GET", "/v1/files").body, HasSubstr("\"data\":[]"));
  EXPECT_THAT(BatchOf(job), HasSubstr("\"status\":\"completed\""));
}

// The same id never names other bytes.
TEST_F(ApiTest, ARetryMakesNewOutputs) {
  const JobNumber job = world_.SubmitJob(2);
  const auto leased = world_.Lease(2);
  ASSERT_TRUE(leased.ok());
  ASSERT_TRUE(world_
                  .Deliver({world_.Result((*leased)[0], v1::AttemptResult::ANSWERED),
                            world_.Result((*leased)[1], v1::AttemptResult::REJECTED)})
                  .ok());
  const std::string id = world_.Status(job).id();
  const std::string first = OutputFileId({id, false, 1});
  EXPECT_THAT(BatchOf(job), HasSubstr(absl::StrCat("\"output_file_id\":\"", first, "\"")));
  EXPECT_THAT(BatchOf(job), HasSubstr(OutputFileId({id, true, 1})));
  EXPECT_EQ(Call("GET", absl::StrCat("/v1/files/", first)).status, 200);
  ASSERT_TRUE(ReopenJob(*store_, world_.committer(), world_.dispatcher(), job, {}).ok());
  EXPECT_THAT(BatchOf(job), HasSubstr("\"output_file_id\":null"));
  EXPECT_EQ(Call("GET", absl::StrCat("/v1/files/", first)).status, 404);
  ASSERT_TRUE(world_.FinishAll().ok());
  const std::string second = OutputFileId({id, false, 2});
  EXPECT_THAT(BatchOf(job), HasSubstr(absl::StrCat("\"output_file_id\":\"", second, "\"")));
  EXPECT_THAT(BatchOf(job), HasSubstr("\"error_file_id\":null"));
  EXPECT_EQ(Call("GET", absl::StrCat("/v1/files/", second)).status, 200);
}

TEST_F(ApiTest, ARepeatedCreationIsTheSameBatchForTenMinutes) {
  const std::string body =
      R"({"input_file_id":"file-x","endpoint":"/v1/responses","completion_window":"24h"})";
  const HttpFields retry = {{"X-Stainless-Retry-Count", "1"}};
  const auto id = [](const HttpReply& reply) { return reply.body.substr(0, 30); };
  const HttpReply first = Call("POST", "/v1/batches", body);
  EXPECT_EQ(first.status, 200);
  world_.clock().Advance(kRetryWindow);
  EXPECT_EQ(id(Call("POST", "/v1/batches", body, retry)), id(first));
  world_.clock().Advance(absl::Seconds(1));
  EXPECT_NE(id(Call("POST", "/v1/batches", body, retry)), id(first));
}

// What is kept beside a job goes with it.
TEST_F(ApiTest, ADeletedJobLeavesNothing) {
  const JobNumber job = world_.SubmitJob(3);
  ASSERT_TRUE(world_.FinishAll().ok());
  const std::string id = world_.Status(job).id();
  const OutputFileName name = {id, false, 1};
  ASSERT_TRUE(outputs_.Measure(name).ok());
  ASSERT_TRUE(api_->Sweep().ok());
  EXPECT_TRUE(outputs_.Known(name).ok());
  ASSERT_TRUE(world_.Control(job, JobCommand::Kind::kDelete).ok());
  EXPECT_EQ(Call("GET", absl::StrCat("/v1/files/", OutputFileId(name))).status, 404);
  ASSERT_TRUE(api_->Sweep().ok());
  EXPECT_TRUE(absl::IsNotFound(outputs_.Known(name).status()));
}

TEST_F(ApiTest, AnUploadThatIsNeverCompletedGoesByItself) {
  const HttpReply made =
      Call("POST", "/v1/uploads",
           R"({"bytes":1,"filename":"a.jsonl","mime_type":"text/jsonl","purpose":"batch"})");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = made.body.substr(7, made.body.find('"', 7) - 7);
  const std::string path = absl::StrCat("/v1/uploads/", id);
  const HttpFields type = {{"content-type", "multipart/form-data; boundary=B"}};
  const std::string form =
      "--B\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\nx\r\n--B--\r\n";
  EXPECT_EQ(Call("POST", absl::StrCat(path, "/parts"), form, type).status, 200);
  world_.clock().Advance(kUploadLifetime);
  EXPECT_EQ(Call("POST", absl::StrCat(path, "/parts"), form, type).status, 409);
  ASSERT_TRUE(api_->Sweep().ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "files"));
  EXPECT_EQ(Call("POST", absl::StrCat(path, "/cancel")).status, 409);
  world_.clock().Advance(kUploadMemory + absl::Seconds(1));
  ASSERT_TRUE(api_->Sweep().ok());
  EXPECT_EQ(Call("POST", absl::StrCat(path, "/cancel")).status, 404);
}

// A full disk is told to those who bring work, not to those who ask for theirs.
TEST_F(ApiTest, AFullDiskTakesNoWorkAndGivesResults) {
  const JobNumber job = world_.SubmitJob(1);
  ASSERT_TRUE(world_.FinishAll().ok());
  world_.dispatcher().HoldForDisk("the disk is full");
  const HttpReply refused =
      Call("POST", "/v1/batches",
           R"({"input_file_id":"file-x","endpoint":"/v1/responses","completion_window":"24h"})");
  EXPECT_EQ(refused.status, 507);
  EXPECT_THAT(refused.headers, testing::Contains(testing::Pair("x-should-retry", "false")));
  const std::string form =
      "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{}\r\n"
      "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B--\r\n";
  const HttpFields type = {{"content-type", "multipart/form-data; boundary=B"}};
  EXPECT_EQ(Call("POST", "/v1/files", form, type).status, 507);
  const std::string file =
      absl::StrCat("/v1/files/", OutputFileId({world_.Status(job).id(), false, 1}), "/content");
  EXPECT_EQ(Call("GET", file).status, 200);
  world_.dispatcher().HoldForDisk("");
  EXPECT_EQ(Call("POST", "/v1/files", form, type).status, 200);
}

// What was refused, or cancelled before there was a job, has nothing else that would end it.
TEST_F(ApiTest, ABatchWithoutAJobIsForgottenAfterAMonth) {
  const HttpReply made =
      Call("POST", "/v1/batches",
           R"({"input_file_id":"file-none","endpoint":"/v1/responses","completion_window":"24h"})");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string path = absl::StrCat("/v1/batches/", batches_->List()[0].id);
  while (Call("GET", path).body.find("\"failed\",\"output") == std::string::npos) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  world_.clock().Advance(kBatchWithoutJobMemory - absl::Seconds(1));
  ASSERT_TRUE(api_->Sweep().ok());
  EXPECT_EQ(Call("GET", path).status, 200);
  world_.clock().Advance(absl::Seconds(2));
  ASSERT_TRUE(api_->Sweep().ok());
  EXPECT_EQ(Call("GET", path).status, 404);
  EXPECT_THAT(batches_->List(), testing::IsEmpty());
}

TEST(GateTest, ATokenIsAskedForWhenThereIsOne) {
  const TempFolder folder;
  std::ofstream(folder / "token") << "secret\n";
  const auto access = *Access::Create({folder / "token", {}}, Clock::Real());
  const Gate gate(*access);
  HttpReply refusal;
  HttpRequest request;
  request.headers = {{"Host", "any.example"}, {"Origin", "http://any.example"}};
  EXPECT_FALSE(gate.Admits(request, &refusal));
  EXPECT_EQ(refusal.status, 401);
  EXPECT_THAT(refusal.body, Not(HasSubstr("secret")));
  request.headers.emplace_back("Authorization", "Bearer secret");
  EXPECT_TRUE(gate.Admits(request, &refusal));
  request.headers.back().second = "Bearer secre";
  EXPECT_FALSE(gate.Admits(request, &refusal));
}

TEST(GateTest, WithoutATokenPagesOfOthersStayOut) {
  const auto access = *Access::Create({}, Clock::Real());
  const Gate gate(*access);
  HttpReply refusal;
  for (const char* origin : {"http://localhost:7480", "http://127.0.0.1", "http://[::1]:7480"}) {
    HttpRequest request;
    request.headers = {{"Origin", origin}, {"Host", "127.0.0.1:7480"}};
    EXPECT_TRUE(gate.Admits(request, &refusal)) << origin;
  }
  for (const char* origin : {"null", "https://evil.example", "http://127.0.0.1.evil.example",
                             "http://localhost.evil.example:7480", ""}) {
    HttpRequest request;
    request.headers = {{"Origin", origin}, {"Host", "127.0.0.1:7480"}};
    EXPECT_FALSE(gate.Admits(request, &refusal)) << origin;
  }
}

}  // namespace
}  // namespace nightshift
