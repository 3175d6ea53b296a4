// Early return for absl::Status and absl::StatusOr.
#ifndef NIGHTSHIFT_BASE_STATUS_MACROS_H_
#define NIGHTSHIFT_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define NIGHTSHIFT_CONCAT_INNER(a, b) a##b
#define NIGHTSHIFT_CONCAT(a, b) NIGHTSHIFT_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(Do());  returns the status from this function unless it is OK.
#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

// ASSIGN_OR_RETURN(auto value, Make());
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(NIGHTSHIFT_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(temporary, lhs, expr)          \
  auto temporary = (expr);                                   \
  if (!temporary.ok()) return std::move(temporary).status(); \
  lhs = *std::move(temporary)

namespace nightshift {

// The same code, with `where` in front of the message: how a message gains context on its way up.
inline absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_STATUS_MACROS_H_
