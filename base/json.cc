#include "base/json.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json_problem.h"
#include "simdjson.h"

// How it is read: simdjson's first stage finds, with vector instructions, the byte of every
// bracket, colon, comma and first byte of a value, and checks UTF-8, string ends and control
// characters. The walk below goes over those positions and checks the grammar. simdjson's own
// second stage is not used because it turns numbers into doubles and refuses the valid 1e999, and
// because nothing here wants the values. Stage one reads no byte beyond the end of the text (it
// copies the last block), so no padded copy is needed; a test puts a text at the very end of a page
// to hold it to that.

namespace nightshift {
namespace {

// Indexes are kept between calls for documents up to this size; a bigger one gives its memory back
// (four bytes per byte of text), so that one huge line does not stay with the thread for ever.
constexpr size_t kKeptCapacity = size_t{1} << 20;

class Indexer {
 public:
  // False when the text cannot be valid. The positions stay until the next call on this thread.
  bool Run(absl::string_view text) {
    if (parser_ == nullptr || capacity_ < text.size()) {
      const size_t capacity = std::max(text.size(), size_t{4096}) * 5 / 4;
      if (simdjson::get_active_implementation()->create_dom_parser_implementation(
              capacity, /*max_depth=*/1, parser_) != simdjson::SUCCESS) {
        parser_ = nullptr;
        return false;
      }
      capacity_ = capacity;
    }
    return parser_->stage1(reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                           simdjson::stage1_mode::regular) == simdjson::SUCCESS;
  }

  void GiveBack() {
    if (capacity_ > kKeptCapacity) parser_ = nullptr;
  }

  const uint32_t* positions() const { return parser_->structural_indexes.get(); }
  size_t count() const { return parser_->n_structural_indexes; }

 private:
  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser_;
  size_t capacity_ = 0;
};

Indexer& ThreadIndexer() {
  thread_local Indexer indexer;
  return indexer;
}

enum class Expect : uint8_t { kValue, kValueOrClose, kKey, kKeyOrClose, kColon, kCommaOrClose };

class Scan {
 public:
  Scan(absl::string_view text, const Indexer& indexer)
      : text_(text), positions_(indexer.positions()), count_(indexer.count()) {
    NextBackslash(0);
  }

  // Whether the text is one valid document. Fills `members` (may be null) with the members of an
  // object or the elements of a list.
  bool Document(std::vector<JsonMember>* members) {
    Expect expect = Expect::kValue;
    for (size_t i = 0; i < count_; ++i) {
      const size_t at = positions_[i];
      const char c = text_[at];
      switch (expect) {
        case Expect::kKeyOrClose:
          if (c == '}') {
            expect = Close(at, members);
            break;
          }
          [[fallthrough]];
        case Expect::kKey: {
          if (c != '"') return false;
          const size_t end = TokenEnd(i);
          if (!StringIsGood(at, end)) return false;
          if (depth_ == 1) key_ = text_.substr(at + 1, end - at - 2);
          expect = Expect::kColon;
          break;
        }
        case Expect::kColon:
          if (c != ':') return false;
          expect = Expect::kValue;
          break;
        case Expect::kCommaOrClose:
          if (depth_ == 0) return false;
          if (c == ',') {
            expect = in_object_[depth_] ? Expect::kKey : Expect::kValue;
          } else if (c == (in_object_[depth_] ? '}' : ']')) {
            expect = Close(at, members);
          } else {
            return false;
          }
          break;
        case Expect::kValueOrClose:
          if (c == ']') {
            expect = Close(at, members);
            break;
          }
          [[fallthrough]];
        case Expect::kValue:
          if (c == '{' || c == '[') {
            if (depth_ == kJsonDepthMax) return false;
            if (depth_ == 1) value_start_ = at;
            in_object_[++depth_] = c == '{';
            expect = c == '{' ? Expect::kKeyOrClose : Expect::kValueOrClose;
            break;
          }
          if (!Scalar(i, at, c, members)) return false;
          expect = Expect::kCommaOrClose;
          break;
      }
    }
    return depth_ == 0 && expect == Expect::kCommaOrClose;
  }

 private:
  // The end of the string, number or word that starts at position `i`: what lies between it and the
  // next position is white space, or else belongs to it and makes it wrong.
  size_t TokenEnd(size_t i) const {
    size_t end = i + 1 < count_ ? positions_[i + 1] : text_.size();
    while (IsJsonBlank(text_[end - 1])) --end;
    return end;
  }

  Expect Close(size_t at, std::vector<JsonMember>* members) {
    --depth_;
    if (depth_ == 1 && members != nullptr) {
      members->push_back({key_, text_.substr(value_start_, at + 1 - value_start_),
                          text_[value_start_] == '{' ? JsonKind::kObject : JsonKind::kArray,
                          value_start_});
    }
    return Expect::kCommaOrClose;
  }

  bool Scalar(size_t i, size_t at, char c, std::vector<JsonMember>* members) {
    const size_t end = TokenEnd(i);
    const absl::string_view raw = text_.substr(at, end - at);
    JsonKind kind = JsonKind::kNumber;
    if (c == '"') {
      if (!StringIsGood(at, end)) return false;
      kind = JsonKind::kString;
    } else if (c == 't' || c == 'f') {
      if (raw != "true" && raw != "false") return false;
      kind = JsonKind::kBool;
    } else if (c == 'n') {
      if (raw != "null") return false;
      kind = JsonKind::kNull;
    } else if (JsonNumberLength(raw) != raw.size()) {
      return false;  // brackets, colons and commas in the wrong place end up here, too
    }
    if (depth_ == 1 && members != nullptr) {
      members->push_back({key_, raw, kind, at});
    }
    return true;
  }

  void NextBackslash(size_t from) {
    const void* found =
        from < text_.size() ? std::memchr(text_.data() + from, '\\', text_.size() - from) : nullptr;
    backslash_ = found == nullptr
                     ? text_.size()
                     : static_cast<size_t>(static_cast<const char*>(found) - text_.data());
  }

  // [start, end) with its quotes. Escapes are all that stage one leaves unchecked in a string.
  bool StringIsGood(size_t start, size_t end) {
    if (end - start < 2 || text_[end - 1] != '"') return false;
    while (backslash_ < end) {
      const size_t length = JsonEscapeLength(text_.substr(backslash_, end - 1 - backslash_));
      if (length == 0) return false;
      const size_t next = backslash_ + length;
      if (next < text_.size() && text_[next] == '\\') {
        backslash_ = next;  // escapes often come in rows
      } else {
        NextBackslash(next);
      }
    }
    return true;
  }

  const absl::string_view text_;
  const uint32_t* const positions_;
  const size_t count_;
  size_t backslash_ = 0;  // the first one not looked at yet
  int depth_ = 0;
  std::array<bool, kJsonDepthMax + 1> in_object_;  // by depth, from 1; written before it is read
  absl::string_view key_;
  size_t value_start_ = 0;
};

bool IsValid(absl::string_view text, std::vector<JsonMember>* members) {
  // Positions are 32 bits wide. No limit on lines lets a text of this size come here.
  if (text.size() >= UINT32_MAX - size_t{64}) return false;
  Indexer& indexer = ThreadIndexer();
  const bool valid = indexer.Run(text) && Scan(text, indexer).Document(members);
  indexer.GiveBack();
  return valid;
}

absl::Status Explain(absl::string_view text) {
  if (text.size() >= UINT32_MAX - size_t{64}) {
    return absl::InvalidArgumentError("is 4 GiB long or more, at byte 0");
  }
  const std::optional<JsonProblem> problem = FindJsonProblem(text);
  // Only if memory for the index could not be had.
  if (!problem) return absl::ResourceExhaustedError("could not be read: out of memory");
  return absl::InvalidArgumentError(problem->Message());
}

absl::StatusOr<std::vector<JsonMember>> Split(absl::string_view text, char open,
                                              absl::string_view otherwise) {
  std::vector<JsonMember> members;
  members.reserve(8);
  if (!IsValid(text, &members)) return Explain(text);
  size_t start = 0;
  while (IsJsonBlank(text[start])) ++start;
  if (text[start] != open) {
    return absl::InvalidArgumentError(absl::StrCat(otherwise, " at byte ", start));
  }
  return members;
}

}  // namespace

absl::string_view JsonKindName(JsonKind kind) {
  switch (kind) {
    case JsonKind::kObject:
      return "an object";
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kBool:
      return "true or false";
    case JsonKind::kNull:
      return "null";
  }
  return "a value";
}

absl::StatusOr<std::vector<JsonMember>> SplitJsonObject(absl::string_view text) {
  return Split(text, '{', "is not an object");
}

absl::StatusOr<std::vector<JsonMember>> SplitJsonArray(absl::string_view text) {
  return Split(text, '[', "is not a list");
}

absl::Status CheckJson(absl::string_view text) {
  return IsValid(text, nullptr) ? absl::OkStatus() : Explain(text);
}

bool IsValidUtf8(absl::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

}  // namespace nightshift
