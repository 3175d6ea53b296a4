// What the simulated model says: a function of the request's bytes and the seed alone.
#ifndef NIGHTSHIFT_CLIENT_SIM_REPLY_H_
#define NIGHTSHIFT_CLIENT_SIM_REPLY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/sim/sim_request.h"

namespace nightshift {

// The text of one answer, one word per token: "echo:" and the mark first, then filler.
class SimText {
 public:
  SimText(absl::string_view mark, uint64_t hash, int64_t tokens);

  const std::string& whole() const { return text_; }
  int64_t tokens() const { return static_cast<int64_t>(ends_.size()); }
  // The text of tokens [begin, end), blanks included, so that pieces put together are the whole.
  absl::string_view Piece(int64_t begin, int64_t end) const;

 private:
  std::string text_;
  std::vector<uint32_t> ends_;  // of each token in text_
};

struct SimReplyLength {
  int64_t tokens = 0;      // of one choice
  bool truncated = false;  // the model wanted to say more: finish_reason "length"
};

// `median` and `spread` as in SimServerOptions; never beyond the request's own maximum, nor beyond
// what `context_tokens` leave after the prompt.
SimReplyLength PlanReplyLength(const SimRequest& request, int64_t median, double spread,
                               int64_t context_tokens);

// The embedding of the `index`-th input: eight numbers in [0, 1).
std::vector<double> SimEmbedding(uint64_t hash, int64_t index);

// A score in [0, 1) of the `index`-th document.
double SimScore(uint64_t hash, int64_t index);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_REPLY_H_
