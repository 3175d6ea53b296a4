#include "coordinator/http/batch_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace nightshift {
namespace {

using ::testing::HasSubstr;

TEST(BatchRequestTest, EveryFieldIsTaken) {
  v1::BatchRecord record;
  HttpReply refusal;
  ASSERT_TRUE(ParseBatchRequest(
      R"({"input_file_id":"file-1","endpoint":"/v1/embeddings","completion_window":"90m",
          "metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":7200},
          "idempotency_key":"k","unknown":[1],
          "nightshift":{"priority":-3,"max_attempts":2,"budget_usd":1.5,"budget_tokens":10,
                        "request_timeout":"30s","name":"n","stop_on_error_rate":0.5,
                        "stream":true,"labels":{"team":"search"}}})",
      &record, &refusal))
      << refusal.body;
  EXPECT_EQ(record.input_file_id(), "file-1");
  EXPECT_EQ(record.endpoint(), v1::ENDPOINT_EMBEDDINGS);
  EXPECT_EQ(record.completion_window(), "90m");
  EXPECT_EQ(record.window_ms(), 90 * 60 * 1000);
  EXPECT_EQ(record.options().deadline_ms(), record.window_ms());
  EXPECT_EQ(record.metadata().at("a"), "b");
  EXPECT_EQ(record.output_expires_after_s(), 7200);
  EXPECT_EQ(record.idempotency_key(), "k");
  EXPECT_EQ(record.options().priority(), -3);
  EXPECT_EQ(record.options().max_attempts(), 2);
  EXPECT_EQ(record.options().budget_usd(), 1.5);
  EXPECT_EQ(record.options().budget_tokens(), 10);
  EXPECT_EQ(record.options().request_timeout_ms(), 30'000);
  EXPECT_EQ(record.options().name(), "n");
  EXPECT_EQ(record.options().stop_on_error_rate(), 0.5);
  EXPECT_TRUE(record.options().stream());
  EXPECT_EQ(record.options().labels().at("team"), "search");
  EXPECT_EQ(record.body_hash().size(), 64u);
}

TEST(BatchRequestTest, NullIsAbsent) {
  v1::BatchRecord record;
  HttpReply refusal;
  EXPECT_TRUE(ParseBatchRequest(
      R"({"input_file_id":"f","endpoint":"/v1/responses","completion_window":"24h","metadata":null,
          "output_expires_after":null,"idempotency_key":null,"nightshift":null})",
      &record, &refusal));
}

TEST(BatchRequestTest, NumbersBeyondTheirTypesAreRefused) {
  for (const char* priority :
       {"99999999999", "18446744073709551615", "-9223372036854775808", "1.5", "1e400"}) {
    v1::BatchRecord record;
    HttpReply refusal;
    EXPECT_FALSE(ParseBatchRequest(
        std::string(
            R"({"input_file_id":"f","endpoint":"/v1/responses","completion_window":"24h",)") +
            R"("nightshift":{"priority":)" + priority + "}}",
        &record, &refusal));
    EXPECT_EQ(refusal.status, 400) << priority;
  }
}

TEST(BatchRequestTest, OptionsOfTheWrongKindAreRefused) {
  for (const char* options : {R"("stop_on_error_rate":0)", R"("stop_on_error_rate":1.1)",
                              R"("stop_on_error_rate":"0.2")", R"("stream":1)", R"("labels":[])",
                              R"("labels":{"a":1})", R"("labels":{"":"x"})", R"("what":1)"}) {
    v1::BatchRecord record;
    HttpReply refusal;
    EXPECT_FALSE(ParseBatchRequest(
        std::string(
            R"({"input_file_id":"f","endpoint":"/v1/responses","completion_window":"24h",)") +
            R"("nightshift":{)" + options + "}}",
        &record, &refusal));
    EXPECT_EQ(refusal.status, 400) << options;
    EXPECT_THAT(refusal.body, HasSubstr("nightshift.")) << options;
  }
}

// A batch with a body of its own, of one field and options.
bool Parses(const std::string& fields, const std::string& options, std::string* refused) {
  v1::BatchRecord record;
  HttpReply refusal;
  const bool good = ParseBatchRequest(
      R"({"endpoint":"/v1/embeddings",)" + fields + R"(,"nightshift":{)" + options + "}}", &record,
      &refusal);
  *refused = refusal.body;
  return good;
}

// What stays in memory with the record.
TEST(BatchRequestTest, TextsAndLabelsHaveALimit) {
  const auto file = [](size_t size) {
    return R"("completion_window":"24h","input_file_id":")" + std::string(size, 'f') + "\"";
  };
  const auto window = [](size_t size) {
    return R"("input_file_id":"f","completion_window":")" + std::string(size - 3, '0') + "24h\"";
  };
  const auto key = [](size_t size) {
    return R"("input_file_id":"f","completion_window":"24h","idempotency_key":")" +
           std::string(size, 'k') + "\"";
  };
  const auto name = [](size_t size) { return R"("name":")" + std::string(size, 'n') + "\""; };
  const auto label = [](size_t name_size, size_t size) {
    return R"("labels":{")" + std::string(name_size, 'l') + R"(":")" + std::string(size, 'v') +
           "\"}";
  };
  const auto labels = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":"v")";
    }
    return R"("labels":{)" + text + "}";
  };
  std::string refused;
  EXPECT_TRUE(Parses(file(kBatchWordBytesMax), "", &refused)) << refused;
  EXPECT_TRUE(Parses(key(kIdempotencyKeyBytesMax), "", &refused)) << refused;
  EXPECT_TRUE(Parses(file(1), name(kBatchNameBytesMax), &refused)) << refused;
  EXPECT_TRUE(Parses(file(1), label(kLabelKeyBytesMax, kLabelValueBytesMax), &refused)) << refused;
  EXPECT_TRUE(Parses(file(1), labels(kLabelsMax), &refused)) << refused;

  EXPECT_FALSE(Parses(file(kBatchWordBytesMax + 1), "", &refused));
  EXPECT_THAT(refused, HasSubstr("'input_file_id': longer than 128 bytes"));
  EXPECT_FALSE(Parses(window(kBatchWordBytesMax + 1), "", &refused));
  EXPECT_THAT(refused, HasSubstr("'completion_window': longer than 128 bytes"));
  EXPECT_FALSE(Parses(key(kIdempotencyKeyBytesMax + 1), "", &refused));
  EXPECT_THAT(refused, HasSubstr("'idempotency_key': expected 1 to 255 bytes"));
  EXPECT_FALSE(Parses(file(1), name(kBatchNameBytesMax + 1), &refused));
  EXPECT_THAT(refused, HasSubstr("'nightshift.name': longer than 512 bytes"));
  EXPECT_FALSE(Parses(file(1), label(kLabelKeyBytesMax + 1, 1), &refused));
  EXPECT_THAT(refused, HasSubstr("a label's name is longer than 128 bytes"));
  EXPECT_FALSE(Parses(file(1), label(1, kLabelValueBytesMax + 1), &refused));
  EXPECT_THAT(refused, HasSubstr("'nightshift.labels.l': longer than 512 bytes"));
  EXPECT_FALSE(Parses(file(1), labels(kLabelsMax + 1), &refused));
  EXPECT_THAT(refused, HasSubstr("at most 64 labels"));
}

TEST(BatchRequestTest, DepthHasALimit) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  v1::BatchRecord record;
  HttpReply refusal;
  EXPECT_FALSE(ParseBatchRequest(deep, &record, &refusal));
  EXPECT_THAT(refusal.body, HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace nightshift
