// What the routes of the API work with, and what several of them need.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_API_PARTS_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_API_PARTS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "coordinator/access/access.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/http/batch_maker.h"
#include "coordinator/http/batch_object.h"
#include "coordinator/http/batch_table.h"
#include "coordinator/http/file_table.h"
#include "coordinator/http/http_message.h"
#include "coordinator/http/output_files.h"
#include "storage/store.h"

namespace nightshift {

// All outlive the routes.
struct ApiParts {
  Store* store;
  Dispatcher* dispatcher;
  CommandSink* committer;
  Clock* clock;
  FileTable* files;
  BatchTable* batches;
  BatchMaker* maker;
  OutputFiles* outputs;
  // Set when what takes long has to give up.
  const std::atomic<bool>* stopping;
  const Access* access;
};

// The batch of that id, whoever made it. NotFound also when its job has been deleted, and when it
// is another tenant's.
absl::StatusOr<BatchView> LoadBatch(const ApiParts& parts, const Caller& caller,
                                    absl::string_view id);

// Whose a file is that the caller makes now, and how much there may be of them.
FileOwner OwnerOf(const ApiParts& parts, const Caller& caller);

// What a list is ordered by.
struct ListEntry {
  int64_t created_at_ms = 0;
  std::string id;
};

// One page of a list, as the query asks for it: `after` (an id of the list, exclusive), `limit` and
// `order`. False with `refusal` filled for a value that is none.
struct Page {
  std::vector<ListEntry> entries;
  bool has_more = false;
};
bool TakePage(const HttpRequest& request, std::vector<ListEntry> entries, int limit_default,
              int limit_max, Page* page, HttpReply* refusal);

// The envelope around the objects of a page.
HttpReply ListReply(const std::vector<std::string>& objects, const Page& page);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_API_PARTS_H_
