#include "coordinator/rpc/status_mapping.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace nightshift {
namespace {

constexpr size_t kMessageBytesShown = 2000;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  absl::string_view text = status.message();
  std::string message(text.substr(0, kMessageBytesShown));
  if (text.size() > kMessageBytesShown) absl::StrAppend(&message, " …");
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), message);
}

}  // namespace nightshift
