#include "tests/sim/sim_job.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace nightshift::sim {
namespace {

constexpr const char* kWords[] = {"normal", "rejected", "long", "poison"};

// FNV-1a.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

std::string RequestBody(const std::string& token, uint64_t index, Behaviour behaviour) {
  // Two models, so that not every backend serves every job.
  return absl::StrCat(R"({"model":"m)", Hash(token) % 2, R"(","job":")", token, R"(","index":)",
                      index, R"(,"behaviour":")", kWords[static_cast<int>(behaviour)], "\"}");
}

Behaviour BehaviourOf(absl::string_view request_body) {
  for (int i = 1; i < 4; ++i) {
    if (absl::StrContains(request_body, absl::StrCat("\"", kWords[i], "\""))) {
      return static_cast<Behaviour>(i);
    }
  }
  return Behaviour::kNormal;
}

std::string AnswerBody(absl::string_view request_body) {
  return absl::StrCat(R"({"answer":")", absl::Hex(Hash(request_body), absl::kZeroPad16), "\"}");
}

v1::SubmittedRequest SimJob::Request(uint64_t index) const {
  v1::SubmittedRequest request;
  request.set_line(static_cast<int64_t>(index) + 1);
  request.set_custom_id(absl::StrCat("r-", index));
  if (bad[index]) {
    request.mutable_bad()->set_reason("not a request");
    return request;
  }
  request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
  request.set_body(RequestBody(token, index, requests[index]));
  request.set_model(absl::StrCat("m", Hash(token) % 2));
  return request;
}

int64_t SimJob::bad_count() const { return std::count(bad.begin(), bad.end(), true); }

}  // namespace nightshift::sim
