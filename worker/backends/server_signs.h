// By which signs servers are recognized. Pure.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_SERVER_SIGNS_H_
#define NIGHTSHIFT_WORKER_BACKENDS_SERVER_SIGNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/limits.h"

namespace nightshift {

struct ModelList {
  bool readable = false;            // it has the shape of a list of models
  std::vector<std::string> models;  // at most kModelsMax
  std::string owner;                // `owned_by` of the first
};
inline constexpr size_t kModelsMax = kModelsToldMax;

// The body of GET /v1/models: OpenAI's envelope, or a bare list.
ModelList ReadModelList(absl::string_view body);

// The answer of Triton's repository index: [{"name","state":"READY"}]. Only the ready ones; at most
// kModelsMax.
std::vector<std::string> ReadModelIndex(absl::string_view body);

// The server's name as people know it, from `owned_by` and the Server header; empty = no sign.
std::string ServerFromSigns(absl::string_view owner, absl::string_view server_header);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_SERVER_SIGNS_H_
