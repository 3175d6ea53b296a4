#include "worker/backends/stream_assembler.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "nlohmann/json.hpp"
#include "worker/backends/bounded_json.h"
#include "worker/backends/event_answer.h"
#include "worker/backends/lenient_json.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

// Members whose pieces follow one another.
bool IsText(const std::string& key) {
  return key == "content" || key == "refusal" || key == "reasoning" || key == "reasoning_content" ||
         key == "reasoning_text" || key == "thinking" || key == "text" || key == "arguments";
}

bool IsPresent(const Json* value) { return value != nullptr && !value->is_null(); }

// The last value is kept, but a later null or "" takes nothing away (Azure's first chunk has empty
// ids, usage is null until the last chunk).
void Keep(Json& object, const std::string& key, const Json& value) {
  const auto found = object.find(key);
  const bool says_nothing =
      value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty());
  if (found == object.end()) {
    object[key] = value;
  } else if (!says_nothing || found->is_null()) {
    *found = value;
  }
}

void Append(Json& object, const std::string& key, const std::string& piece) {
  Json& text = object[key];
  if (text.is_string()) {
    text.get_ref<std::string&>() += piece;
  } else {
    text = piece;
  }
}

void AppendItems(Json& object, const std::string& key, const Json& items) {
  Json& list = object[key];
  if (!list.is_array()) list = Json::array();
  for (const Json& item : items) list.push_back(item);
}

// The text of a piece, which stands between two quotes, resolved into `out`; false for what only
// the parser can judge.
bool ResolvePiece(absl::string_view raw, std::string* out) {
  out->clear();
  bool ascii = true;
  for (size_t i = 0; i < raw.size(); ++i) {
    const char c = raw[i];
    if (c == '"' || static_cast<unsigned char>(c) < ' ') return false;
    if (c != '\\') {
      ascii = ascii && static_cast<unsigned char>(c) < 0x80;
      out->push_back(c);
      continue;
    }
    if (++i == raw.size()) return false;
    constexpr absl::string_view kEscapes = "\"\\/bfnrt";
    constexpr absl::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const size_t known = kEscapes.find(raw[i]);
    if (known == absl::string_view::npos) return false;  // \uXXXX
    out->push_back(kMeanings[known]);
  }
  return ascii || IsValidUtf8(raw);
}

class Choice {
 public:
  // What TakeChunk does with a chunk that has a piece under `key`, and nothing new beside it.
  void AppendPiece(Endpoint endpoint, const std::string& key, const std::string& piece) {
    Append(endpoint == Endpoint::kCompletions ? rest_ : message_, key, piece);
  }

  void TakeChunk(Endpoint endpoint, const Json& chunk, bool& has_content) {
    for (const auto& [key, value] : chunk.items()) {
      if (key == "index") continue;
      if (key == "delta" || key == "message") {  // some servers call it by its other name
        if (value.is_object()) TakeDelta(value, has_content);
      } else if (key == "text" && endpoint == Endpoint::kCompletions) {
        if (value.is_string()) TakeText(key, value, rest_, has_content);
      } else if (key == "logprobs") {
        TakeLogprobs(value);
      } else {
        Keep(rest_, key, value);
      }
    }
  }

  bool finished() const { return IsPresent(FindIn(rest_, "finish_reason")); }

  Json Assemble(Endpoint endpoint, int64_t index) const {
    Json choice = {{"index", index}};
    if (endpoint == Endpoint::kCompletions) {
      choice["text"] = "";
    } else {
      choice["message"] = Message();
    }
    if (logprobs_told_) choice["logprobs"] = logprobs_;
    for (const auto& [key, value] : rest_.items()) choice[key] = value;
    if (!choice.contains("finish_reason")) choice["finish_reason"] = nullptr;
    return choice;
  }

 private:
  static void TakeText(const std::string& key, const Json& value, Json& into, bool& has_content) {
    if (value.is_string()) {
      const std::string& piece = value.get_ref<const std::string&>();
      if (!piece.empty()) has_content = true;
      Append(into, key, piece);
    } else if (value.is_array()) {  // content in parts
      if (!value.empty()) has_content = true;
      AppendItems(into, key, value);
    } else if (!into.contains(key)) {
      into[key] = value;
    }
  }

  void TakeDelta(const Json& delta, bool& has_content) {
    for (const auto& [key, value] : delta.items()) {
      if (key == "tool_calls") {
        if (value.is_array()) TakeToolCalls(value, has_content);
      } else if (key == "function_call") {
        if (value.is_object()) TakeCallMembers(value, function_call_, has_content);
      } else if (IsText(key)) {
        TakeText(key, value, message_, has_content);
      } else {
        Keep(message_, key, value);
      }
    }
  }

  void TakeToolCalls(const Json& calls, bool& has_content) {
    int64_t position = 0;
    for (const Json& call : calls) {
      if (!call.is_object()) continue;
      int64_t index = position++;
      const Json* const told = FindIn(call, "index");
      if (told != nullptr && told->is_number_integer()) index = told->get<int64_t>();
      TakeCallMembers(call, tool_calls_[index], has_content);
    }
  }

  // Members of a tool call, or of its function: names come once (some servers repeat them),
  // arguments in pieces.
  static void TakeCallMembers(const Json& from, Json& into, bool& has_content) {
    if (!into.is_object()) into = Json::object();
    has_content = true;
    for (const auto& [key, value] : from.items()) {
      if (key == "index") continue;
      if (value.is_object()) {
        TakeCallMembers(value, into[key], has_content);
      } else if (key == "arguments" && value.is_string()) {
        Append(into, key, value.get_ref<const std::string&>());
      } else {
        Keep(into, key, value);
      }
    }
  }

  void TakeLogprobs(const Json& chunk) {
    logprobs_told_ = true;
    if (!chunk.is_object()) return;
    if (!logprobs_.is_object()) logprobs_ = Json::object();
    for (const auto& [key, value] : chunk.items()) {
      if (value.is_array()) {
        AppendItems(logprobs_, key, value);
      } else {
        Keep(logprobs_, key, value);
      }
    }
  }

  Json Message() const {
    Json message = {{"role", "assistant"}, {"content", nullptr}};
    for (const auto& [key, value] : message_.items()) message[key] = value;
    if (!tool_calls_.empty()) {
      Json calls = Json::array();
      for (const auto& [index, call] : tool_calls_) calls.push_back(call);
      message["tool_calls"] = std::move(calls);
    }
    if (!function_call_.is_null()) message["function_call"] = function_call_;
    // Pieces of an empty text are an empty text; next to a call the text is null.
    const bool calls_something = !tool_calls_.empty() || !function_call_.is_null();
    Json& content = message["content"];
    if (calls_something && content.is_string() && content.get_ref<const std::string&>().empty())
      content = nullptr;
    if (!calls_something && content.is_null()) content = "";
    return message;
  }

  Json message_ = Json::object();
  Json rest_ = Json::object();  // of the choice: text, finish_reason, …
  Json logprobs_;
  bool logprobs_told_ = false;  // if only that there are none
  Json function_call_;
  std::map<int64_t, Json> tool_calls_;
};

bool IsErrorFrame(absl::string_view event, const Json& frame) {
  if (event == "error") return true;
  const Json* const error = FindIn(frame, "error");
  if (IsPresent(error) && !(error->is_string() && error->get_ref<const std::string&>().empty()))
    return true;
  for (const char* key : {"object", "type"}) {
    const Json* const kind = FindIn(frame, key);
    if (kind != nullptr && *kind == "error") return true;
  }
  return false;
}

}  // namespace

// The frames of a stream are mostly the same but for the piece of text in them. Such a frame need
// not be parsed: what it has beside the piece has been taken from the one before.
struct Pattern {
  std::string before;  // the frame up to the piece, with the quote that opens it
  std::string after;   // from the quote that closes the piece; empty = there is no pattern
  std::string key;     // of the piece
  int64_t choice = 0;

  // What stands where the piece does; false when the frame is another.
  bool Match(absl::string_view frame, absl::string_view* piece) const {
    if (after.empty() || frame.size() < before.size() + after.size() ||
        !absl::StartsWith(frame, before) || !absl::EndsWith(frame, after)) {
      return false;
    }
    *piece = frame.substr(before.size(), frame.size() - before.size() - after.size());
    return true;
  }

  // The pattern of a frame that has been parsed; none where taking it twice would do more than
  // append its piece twice.
  static Pattern Of(Endpoint endpoint, absl::string_view frame, const Json& parsed) {
    Pattern none;
    const Json* const choices = FindIn(parsed, "choices");
    if (choices == nullptr || !choices->is_array() || choices->size() != 1) return none;
    const Json& only = choices->front();
    if (IsPresent(FindIn(only, "logprobs")) || FindIn(only, "message") != nullptr) return none;
    const bool text = endpoint == Endpoint::kCompletions;
    const Json* const holder = text ? &only : FindIn(only, "delta");
    if (holder == nullptr || !holder->is_object()) return none;
    Pattern pattern;
    for (const auto& [name, value] : holder->items()) {
      if (text ? name != "text" : !IsText(name)) {
        if (!text && value.is_structured()) return none;
        continue;
      }
      if (value.is_structured()) return none;
      if (!value.is_string() || value.get_ref<const std::string&>().empty()) continue;
      if (!pattern.key.empty()) return none;
      pattern.key = name;
    }
    if (pattern.key.empty()) return none;
    if (const Json* const index = FindIn(only, "index"); index != nullptr) {
      if (!index->is_number_integer()) return none;
      pattern.choice = index->get<int64_t>();
    }
    // Where the piece stands: behind the only place that looks like its key.
    const std::string quoted = absl::StrCat("\"", pattern.key, "\":");
    const size_t at = frame.find(quoted);
    if (at == absl::string_view::npos || frame.find(quoted, at + 1) != absl::string_view::npos) {
      return none;
    }
    size_t begin = frame.find_first_not_of(' ', at + quoted.size());
    if (begin == absl::string_view::npos || frame[begin] != '"') return none;
    size_t end = ++begin;
    while (end < frame.size() && frame[end] != '"') end += frame[end] == '\\' ? 2 : 1;
    std::string piece;
    if (end >= frame.size() || !ResolvePiece(frame.substr(begin, end - begin), &piece) ||
        piece != holder->at(pattern.key).get_ref<const std::string&>()) {
      return none;
    }
    pattern.before = std::string(frame.substr(0, begin));
    pattern.after = std::string(frame.substr(end));
    return pattern;
  }
};

struct StreamAssembler::Impl {
  Options options;
  std::unique_ptr<EventAnswer> events;  // null: chunks of choices
  Json top = Json::object();
  std::map<int64_t, Choice> choices;
  int64_t pieces = 0;
  bool done = false;
  bool unreadable = false;
  bool any_frame = false;
  Pattern pattern;    // of the last frame
  std::string piece;  // scratch
  bool marked = false;
  std::string error_frame;
  int64_t bytes_kept = 0;

  bool AllFinished() const {
    for (const auto& [index, choice] : choices) {
      if (!choice.finished()) return false;
    }
    return !choices.empty();
  }
  void TakeChunk(const Json& chunk);
  // Roughly: ids, dates and names come with every chunk and are kept once, about a hundred bytes of
  // each frame.
  void Count(absl::string_view frame) {
    bytes_kept += static_cast<int64_t>(frame.size() > 100 ? frame.size() - 100 : 1);
  }
  // True when the frame is like the one before but for its piece, which has been taken.
  bool TakeAlike(absl::string_view frame) {
    absl::string_view raw;
    if (!pattern.Match(frame, &raw) || !ResolvePiece(raw, &piece) || piece.empty()) return false;
    choices[pattern.choice].AppendPiece(options.endpoint, pattern.key, piece);
    ++pieces;
    Count(frame);
    return true;
  }
  std::string Print(const Json& answer) const {
    std::string text = PrintJson(answer);
    if (marked) JoinHalves(text);
    return text;
  }
};

StreamAssembler::StreamAssembler(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->events = EventAnswer::For(options.endpoint);
}
StreamAssembler::~StreamAssembler() = default;

bool StreamAssembler::Supports(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions || endpoint == Endpoint::kCompletions ||
         endpoint == Endpoint::kMessages || endpoint == Endpoint::kResponses;
}

void StreamAssembler::TakeFrame(absl::string_view event, absl::string_view data) {
  if (impl_->done || failed()) return;
  if (absl::StartsWith(data, "[DONE]")) {
    impl_->done = true;
    return;
  }
  if (event != "error" && impl_->TakeAlike(data)) return;
  // Servers that keep a connection alive with empty frames exist.
  if (absl::StripAsciiWhitespace(data).empty()) return;
  impl_->any_frame = true;
  const std::optional<Json> frame = ParseFrame(data, &impl_->marked);
  if (event == "error" || (frame && IsErrorFrame(event, *frame))) {
    impl_->error_frame.assign(data.data(), data.size());
    return;
  }
  if (!frame || !frame->is_object()) {
    impl_->unreadable = true;
    return;
  }
  impl_->Count(data);
  if (impl_->events != nullptr) {
    impl_->events->Take(*frame);
    impl_->pieces = impl_->events->pieces();
    impl_->done = impl_->events->done();
  } else {
    impl_->TakeChunk(*frame);
    impl_->pattern = Pattern::Of(impl_->options.endpoint, data, *frame);
  }
}

void StreamAssembler::Impl::TakeChunk(const Json& chunk) {
  bool has_content = false;
  for (const auto& [key, value] : chunk.items()) {
    if (key != "choices") {
      Keep(top, key, value);
      continue;
    }
    if (!value.is_array()) continue;
    int64_t position = 0;
    for (const Json& item : value) {
      if (!item.is_object()) continue;
      int64_t index = position++;
      const Json* const told = FindIn(item, "index");
      if (told != nullptr && told->is_number_integer()) index = told->get<int64_t>();
      choices[index].TakeChunk(options.endpoint, item, has_content);
    }
  }
  if (has_content) ++pieces;
}

void StreamAssembler::ExpectMarks() { impl_->marked = true; }
int64_t StreamAssembler::pieces() const { return impl_->pieces; }
bool StreamAssembler::done() const { return impl_->done; }
bool StreamAssembler::failed() const { return impl_->unreadable || !impl_->error_frame.empty(); }
int64_t StreamAssembler::bytes_kept() const { return impl_->bytes_kept; }
const std::string& StreamAssembler::error_frame() const { return impl_->error_frame; }

std::string StreamAssembler::Incomplete() const {
  if (!impl_->error_frame.empty()) return "the stream ended with an error";
  if (impl_->unreadable) return "the stream holds a frame that is not JSON";
  if (impl_->events != nullptr) {
    if (!impl_->events->has_answer()) return "the stream ended without an answer in it";
    return impl_->events->done() ? "" : "the stream ended without its last event";
  }
  if (impl_->choices.empty()) return "the stream ended without an answer in it";
  if (!impl_->done) {
    if (impl_->options.end == StreamEnd::kEndOfResponse) return "";
    if (!impl_->AllFinished()) return "the stream ended without a finish_reason and without [DONE]";
    return impl_->options.end == StreamEnd::kDone ? "the stream ended without [DONE]" : "";
  }
  // Cerebras has been seen to leave the reason out; the closing account then says that the server
  // came to the end by itself.
  if (!impl_->AllFinished() && !IsPresent(FindIn(impl_->top, "usage")))
    return "the stream ended without a finish_reason";
  return "";
}

std::string StreamAssembler::Assemble() const {
  if (impl_->events != nullptr) {
    const Json answer = impl_->events->Assemble();
    return answer.is_null() ? "" : impl_->Print(answer);
  }
  if (!impl_->any_frame || (impl_->choices.empty() && impl_->top.empty())) return "";
  Json answer = Json::object();
  Json choices = Json::array();
  for (const auto& [index, choice] : impl_->choices)
    choices.push_back(choice.Assemble(impl_->options.endpoint, index));
  // The order that servers have: who it is, then the choices, then the account.
  for (const char* key : {"id", "object", "created", "model"}) {
    if (const Json* const value = FindIn(impl_->top, key)) answer[key] = *value;
  }
  for (const auto& [key, value] : impl_->top.items()) {
    if (key == "usage" && !answer.contains("choices")) answer["choices"] = choices;
    answer[key] = value;
  }
  if (!answer.contains("choices")) answer["choices"] = std::move(choices);
  Json& object = answer["object"];
  if (object.is_null() || object == "chat.completion.chunk" || object == "text_completion.chunk") {
    object =
        impl_->options.endpoint == Endpoint::kCompletions ? "text_completion" : "chat.completion";
  }
  return impl_->Print(answer);
}

}  // namespace nightshift
