#include "coordinator/http/batch_line.h"

#include <gtest/gtest.h>

#include <string>

namespace nightshift {
namespace {

constexpr char kGood[] =
    R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{ "model":"m","messages":[{"role":"user","content":"hi"}],"n":1e3}})";

BatchLineRules Rules() {
  BatchLineRules rules;
  rules.endpoint = Endpoint::kChatCompletions;
  return rules;
}

TEST(BatchLineTest, TheBodyKeepsItsBytes) {
  v1::SubmittedRequest request;
  v1::BatchError error;
  ASSERT_TRUE(CheckBatchLine(kGood, 7, Rules(), &request, &error)) << error.message();
  EXPECT_EQ(request.body(),
            R"({ "model":"m","messages":[{"role":"user","content":"hi"}],"n":1e3})");
  EXPECT_EQ(request.custom_id(), "a");
  EXPECT_EQ(request.line(), 7);
  EXPECT_EQ(request.model(), "m");
}

// What a job's input takes, the Batch API does not.
TEST(BatchLineTest, ShortFormsAreRefused) {
  v1::SubmittedRequest request;
  v1::BatchError error;
  EXPECT_FALSE(CheckBatchLine(R"({"custom_id":"a","prompt":"hi"})", 1, Rules(), &request, &error));
  EXPECT_EQ(error.code(), "missing_required_parameter");
  EXPECT_EQ(error.param(), "method");
}

TEST(BatchLineTest, AModelIsCheckedOnlyAgainstModelsThatAreKnown) {
  v1::SubmittedRequest request;
  v1::BatchError error;
  BatchLineRules rules = Rules();
  rules.models = {"other"};
  EXPECT_FALSE(CheckBatchLine(kGood, 1, rules, &request, &error));
  EXPECT_EQ(error.code(), "model_not_found");
  rules.models->insert("m");
  EXPECT_TRUE(CheckBatchLine(kGood, 1, rules, &request, &error));
}

TEST(BatchLineTest, FindingsOfTheJobsOwnChecksGetTheirCodes) {
  v1::BadLine bad;
  bad.set_line(3);
  bad.set_field("custom_id");
  bad.set_reason("same custom_id as line 1");
  const v1::BatchError error = BatchErrorOf(bad);
  EXPECT_EQ(error.code(), "duplicate_custom_id");
  EXPECT_EQ(error.message(), "custom_id: same custom_id as line 1");
  EXPECT_EQ(error.line(), 3);
}

}  // namespace
}  // namespace nightshift
