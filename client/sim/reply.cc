#include "client/sim/reply.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace nightshift {
namespace {

constexpr std::array<absl::string_view, 32> kWords = {
    "amber",  "basin",  "cedar",  "delta", "ember",  "fjord",  "grove",  "haven",
    "inlet",  "jetty",  "kelp",   "lunar", "meadow", "north",  "ocean",  "pebble",
    "quiet",  "river",  "summit", "tidal", "umber",  "valley", "winter", "xenon",
    "yonder", "zenith", "birch",  "coral", "dune",   "echo",   "frost",  "glade"};

constexpr size_t kBytesPerTokenGuess = 7;

}  // namespace

SimText::SimText(absl::string_view mark, uint64_t hash, int64_t tokens) {
  if (tokens <= 0) return;
  const auto count = static_cast<size_t>(tokens);
  text_.reserve(32 + count * kBytesPerTokenGuess);
  ends_.reserve(count);
  absl::StrAppend(&text_, "echo:", mark);
  ends_.push_back(static_cast<uint32_t>(text_.size()));
  Random random(hash);
  uint64_t bits = 0;
  for (size_t i = 1; i < count; ++i) {
    if (i % 12 == 1) bits = random.Next();  // twelve words of five bits
    const absl::string_view word = kWords[bits & 31];
    bits >>= 5;
    text_.push_back(' ');
    text_.append(word.data(), word.size());
    ends_.push_back(static_cast<uint32_t>(text_.size()));
  }
}

absl::string_view SimText::Piece(int64_t begin, int64_t end) const {
  end = std::min(end, tokens());
  if (begin >= end) return "";
  const size_t from = begin == 0 ? 0 : ends_[static_cast<size_t>(begin) - 1];
  return absl::string_view(text_).substr(from, ends_[static_cast<size_t>(end) - 1] - from);
}

SimReplyLength PlanReplyLength(const SimRequest& request, int64_t median, double spread,
                               int64_t context_tokens) {
  // Another stream of chance than the words, so that a longer answer is not another answer.
  Random random(request.hash ^ 0x6c656e677468ULL);
  int64_t wanted = median;
  if (spread > 0 && median > 0) {
    wanted =
        std::max<int64_t>(1, std::llround(random.LogNormal(static_cast<double>(median), spread)));
  }
  if (request.directive.tokens.has_value()) wanted = *request.directive.tokens;
  if (request.directive.empty) wanted = 0;
  int64_t room = std::max<int64_t>(0, context_tokens - request.prompt_tokens);
  if (request.max_tokens > 0) room = std::min(room, request.max_tokens);
  return {std::min(wanted, room), wanted > room || request.directive.length};
}

std::vector<double> SimEmbedding(uint64_t hash, int64_t index) {
  Random random(hash + static_cast<uint64_t>(index));
  std::vector<double> numbers(8);
  for (double& number : numbers) number = random.Unit();
  return numbers;
}

double SimScore(uint64_t hash, int64_t index) {
  return Random(hash ^ (static_cast<uint64_t>(index) << 32)).Unit();
}

}  // namespace nightshift
