#include "worker/backends/event_answer.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/backends/stream_assembler.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

std::string Assemble(Endpoint endpoint, const std::vector<std::string>& events,
                     std::string* incomplete) {
  StreamAssembler assembler({.endpoint = endpoint});
  for (const std::string& event : events) assembler.TakeFrame("", event);
  *incomplete = assembler.Incomplete();
  return assembler.Assemble();
}

const std::vector<std::string> kMessage = {
    R"({"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}})",
    R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})",
    R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}})",
    R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s1"}})",
    R"({"type":"content_block_stop","index":0})",
    R"({"type":"ping"})",
    R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
    R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}})",
    R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}})",
    R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}})",
    R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}})",
    R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":1}"}})",
    R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":12}})",
    R"({"type":"message_stop"})",
};

TEST(EventAnswerTest, MessageIsWhatItWouldHaveBeenUnstreamed) {
  std::string incomplete;
  EXPECT_EQ(Assemble(Endpoint::kMessages, kMessage, &incomplete),
            R"({"id":"m","type":"message","role":"assistant","model":"x","content":[)"
            R"({"type":"thinking","thinking":"hm","signature":"s1"},)"
            R"({"type":"text","text":"Hello"},)"
            R"({"type":"tool_use","id":"t","name":"f","input":{"a":1}}],)"
            R"("stop_reason":"tool_use","stop_sequence":null,)"
            R"("usage":{"input_tokens":9,"output_tokens":12}})");
  EXPECT_EQ(incomplete, "");
}

// Wherever a message is cut, what is there is a document, and it is known not to be whole.
TEST(EventAnswerTest, EveryCutOfAMessageIsIncompleteAndADocument) {
  for (size_t count = 0; count < kMessage.size(); ++count) {
    std::string incomplete;
    const std::string part =
        Assemble(Endpoint::kMessages, {kMessage.begin(), kMessage.begin() + count}, &incomplete);
    EXPECT_NE(incomplete, "") << count;
    EXPECT_EQ(part.empty(), count == 0);
    EXPECT_TRUE(part.empty() || Json::accept(part)) << part;
  }
}

TEST(EventAnswerTest, ResponseIsThatOfItsLastEvent) {
  const std::vector<std::string> events = {
      R"({"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}})",
      R"({"type":"response.output_text.delta","delta":"Hel"})",
      R"({"type":"response.output_text.delta","delta":"lo"})",
      R"({"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message"}],"usage":{"input_tokens":1}}})",
  };
  std::string incomplete;
  EXPECT_EQ(Assemble(Endpoint::kResponses, events, &incomplete),
            R"({"id":"r","status":"completed","output":[{"type":"message"}],)"
            R"("usage":{"input_tokens":1}})");
  EXPECT_EQ(incomplete, "");
  const Json part =
      Json::parse(Assemble(Endpoint::kResponses, {events.begin(), events.end() - 1}, &incomplete));
  EXPECT_EQ(part["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(incomplete, "the stream ended without its last event");
}

TEST(EventAnswerTest, ErrorEventsAreFailures) {
  std::string incomplete;
  StreamAssembler assembler({.endpoint = Endpoint::kMessages});
  assembler.TakeFrame("error", R"({"type":"error","error":{"type":"overloaded_error"}})");
  EXPECT_TRUE(assembler.failed());
}

TEST(EventAnswerTest, StrangeEventsDoNoHarm) {
  std::string incomplete;
  const std::string part = Assemble(
      Endpoint::kMessages,
      {R"({"type":7})",
       R"({"type":"content_block_delta","index":-1,"delta":{"type":"text_delta"}})",
       R"({"type":"content_block_delta","index":1e14,"delta":{"type":"text_delta","text":"x"}})",
       R"({"type":"content_block_delta","index":0,"delta":7})",
       R"({"type":"message_start","message":"m"})",
       R"({"type":"message_delta","delta":[],"usage":1})"},
      &incomplete);
  EXPECT_TRUE(part.empty() || Json::accept(part)) << part;
  EXPECT_NE(incomplete, "");
}

}  // namespace
}  // namespace nightshift
