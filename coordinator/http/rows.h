// The keys of the API's rows in the `files` family: a word for the kind of row, then the id, so
// that the rows of a kind lie together in the order of their ids.
//
// Pure functions over a store; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_ROWS_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_ROWS_H_

#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/record.h"
#include "storage/store.h"
#include "storage/write_set.h"

namespace nightshift {

inline constexpr absl::string_view kFileRows = "file/";                // FileRecord
inline constexpr absl::string_view kOutputRows = "output/";            // OutputFileRecord
inline constexpr absl::string_view kBatchRows = "batch/";              // BatchRecord
inline constexpr absl::string_view kBatchErrorRows = "batch-errors/";  // BatchErrors
inline constexpr absl::string_view kUploadRows = "upload/";            // UploadRecord

std::string RowKey(absl::string_view kind, absl::string_view id);

// Adds the row to the writes, in place of what is there.
template <typename Record>
void PutRow(absl::string_view kind, absl::string_view id, const Record& record, WriteSet& writes) {
  std::string key = RowKey(kind, id);
  std::string value = EncodeRecord(key, record);
  writes.Put(Family::kFiles, std::move(key), std::move(value));
}
// The same for a row that must not be there yet; the commit fails otherwise.
template <typename Record>
void PutNewRow(absl::string_view kind, absl::string_view id, const Record& record,
               WriteSet& writes) {
  writes.ExpectAbsent(Family::kFiles, RowKey(kind, id));
  PutRow(kind, id, record, writes);
}

// Hands every row of the kind to `take`, in the order of the ids; the first error ends it.
absl::Status ReadRows(const Store& store, absl::string_view kind,
                      absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> take);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_ROWS_H_
