#include "worker/backends/event_answer.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "worker/backends/bounded_json.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

// A block of content is named by its number, and servers count from zero; a number beyond this is
// a server gone wrong.
constexpr int64_t kBlocksMax = 10000;

void AppendText(Json& object, const char* key, const std::string& piece) {
  Json& text = object[key];
  if (!text.is_string()) text = "";
  text.get_ref<std::string&>() += piece;
}

// message_start, then blocks (start, deltas, stop), then message_delta with why it ended and what
// it cost, then message_stop.
class MessageAnswer final : public EventAnswer {
 public:
  void Take(const Json& event) override {
    const std::string type = TextIn(event, "type");
    if (type == "message_start") {
      const Json* const message = FindIn(event, "message");
      if (message != nullptr && message->is_object()) message_ = *message;
    } else if (type == "content_block_start") {
      const Json* const block = FindIn(event, "content_block");
      Json* const into = Block(event);
      if (into == nullptr || block == nullptr || !block->is_object()) return;
      *into = *block;
      if (TextIn(*block, "type") == "tool_use" || !TextIn(*block, "text").empty()) ++pieces_;
    } else if (type == "content_block_delta") {
      const Json* const delta = FindIn(event, "delta");
      if (Json* const into = Block(event); into != nullptr && delta != nullptr)
        TakeDelta(*delta, static_cast<int64_t>(NumberIn(event, "index")), *into);
    } else if (type == "message_delta") {
      TakeEnd(event);
    } else if (type == "message_stop") {
      done_ = true;
    }
  }

  bool has_answer() const override { return !message_.is_null() || !blocks_.empty(); }

  Json Assemble() const override {
    if (!has_answer()) return nullptr;
    Json message = message_.is_object() ? message_ : Json::object();
    Json content = Json::array();
    for (const auto& [index, block] : blocks_) {
      content.push_back(block);
      const auto input = inputs_.find(index);
      if (input == inputs_.end() || input->second.empty()) continue;
      // Cut off in the middle it is no document: then the text itself is shown.
      std::optional<Json> parsed = ParseBounded(input->second);
      content.back()["input"] = parsed ? *std::move(parsed) : Json(input->second);
    }
    message["content"] = std::move(content);
    return message;
  }

 private:
  Json* Block(const Json& event) {
    const double index = NumberIn(event, "index");
    if (index < 0 || index >= kBlocksMax) return nullptr;
    Json& block = blocks_[static_cast<int64_t>(index)];
    if (!block.is_object()) block = Json::object();
    return &block;
  }

  void TakeDelta(const Json& delta, int64_t index, Json& block) {
    const std::string type = TextIn(delta, "type");
    if (type == "text_delta") {
      const std::string piece = TextIn(delta, "text");
      if (!piece.empty()) ++pieces_;
      AppendText(block, "text", piece);
    } else if (type == "thinking_delta") {
      ++pieces_;
      AppendText(block, "thinking", TextIn(delta, "thinking"));
    } else if (type == "signature_delta") {
      AppendText(block, "signature", TextIn(delta, "signature"));
    } else if (type == "input_json_delta") {
      ++pieces_;
      inputs_[index] += TextIn(delta, "partial_json");
    } else if (type == "citations_delta") {
      Json& citations = block["citations"];
      if (!citations.is_array()) citations = Json::array();
      if (const Json* const citation = FindIn(delta, "citation")) citations.push_back(*citation);
    }
  }

  void TakeEnd(const Json& event) {
    if (!message_.is_object()) message_ = Json::object();
    const Json* const delta = FindIn(event, "delta");
    if (delta != nullptr && delta->is_object()) {
      for (const auto& [key, value] : delta->items()) message_[key] = value;
    }
    const Json* const usage = FindIn(event, "usage");
    if (usage == nullptr || !usage->is_object()) return;
    Json& known = message_["usage"];
    if (!known.is_object()) known = Json::object();
    for (const auto& [key, value] : usage->items()) {
      if (!value.is_null()) known[key] = value;
    }
  }

  Json message_;
  std::map<int64_t, Json> blocks_;
  std::map<int64_t, std::string> inputs_;  // of tools: JSON in pieces
};

// The last event holds the whole document; the pieces before it only matter where it never comes.
class ResponseAnswer final : public EventAnswer {
 public:
  void Take(const Json& event) override {
    const std::string type = TextIn(event, "type");
    const Json* const response = FindIn(event, "response");
    if (response != nullptr && response->is_object()) response_ = *response;
    if (type == "response.completed" || type == "response.incomplete" ||
        type == "response.failed") {
      done_ = true;
    } else if (absl::EndsWith(type, ".delta")) {
      ++pieces_;
      if (type == "response.output_text.delta") text_ += TextIn(event, "delta");
    }
  }

  bool has_answer() const override { return !response_.is_null() || !text_.empty(); }

  Json Assemble() const override {
    if (done_ || text_.empty()) return response_;
    Json part = response_.is_object() ? response_ : Json::object();
    part["output"] =
        Json::array({{{"type", "message"},
                      {"role", "assistant"},
                      {"status", "incomplete"},
                      {"content", Json::array({{{"type", "output_text"}, {"text", text_}}})}}});
    return part;
  }

 private:
  Json response_;
  std::string text_;
};

}  // namespace

std::unique_ptr<EventAnswer> EventAnswer::For(Endpoint endpoint) {
  if (endpoint == Endpoint::kMessages) return std::make_unique<MessageAnswer>();
  if (endpoint == Endpoint::kResponses) return std::make_unique<ResponseAnswer>();
  return nullptr;
}

}  // namespace nightshift
