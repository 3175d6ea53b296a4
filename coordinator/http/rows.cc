#include "coordinator/http/rows.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace nightshift {

std::string RowKey(absl::string_view kind, absl::string_view id) { return absl::StrCat(kind, id); }

absl::Status ReadRows(const Store& store, absl::string_view kind,
                      absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> take) {
  // The byte behind '/': no id can reach it.
  std::string end(kind);
  ++end.back();
  const std::unique_ptr<StoreIterator> rows = store.Scan(Family::kFiles, kind, end);
  for (; rows->Valid(); rows->Next()) RETURN_IF_ERROR(take(rows->key(), rows->value()));
  return rows->status();
}

}  // namespace nightshift
