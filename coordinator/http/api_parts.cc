#include "coordinator/http/api_parts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/core/tenant.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/jobs/row_walk.h"
#include "storage/keys.h"

namespace nightshift {
namespace {

absl::Status NoSuchBatch(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("No batch found with id '", id, "'."));
}

// All requests of what the API makes have one endpoint; of another job's the first one's is told.
v1::Endpoint FirstEndpoint(const Store& store, JobNumber job) {
  const std::string key = RequestRowKey(job, 0);
  const absl::StatusOr<std::string> value = store.Get(Family::kRequests, key);
  if (!value.ok()) return v1::ENDPOINT_UNSPECIFIED;
  const absl::StatusOr<RequestHead> head = ReadRequestHead(key, *value);
  return head.ok() ? static_cast<v1::Endpoint>(head->endpoint) : v1::ENDPOINT_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<BatchView> LoadBatch(const ApiParts& parts, const Caller& caller,
                                    absl::string_view id) {
  const std::string job_id = JobIdOfBatch(id);
  if (job_id.empty()) return NoSuchBatch(id);
  BatchView view;
  if (absl::StatusOr<v1::BatchRecord> record = parts.batches->Find(id); record.ok()) {
    view.has_record = true;
    view.record = *std::move(record);
    if (!caller.Sees(view.record.tenant())) return NoSuchBatch(id);
  }
  const absl::StatusOr<JobNumber> job = parts.dispatcher->FindJob(job_id);
  if (job.ok()) {
    absl::StatusOr<v1::JobStatus> status = parts.dispatcher->GetStatus(*job, parts.clock->Now());
    absl::StatusOr<v1::JobRecord> record = parts.dispatcher->GetRecord(*job);
    // Unless it was deleted in between.
    if (status.ok() && record.ok()) {
      view.has_job = true;
      view.job = *std::move(status);
      view.job_record = *std::move(record);
      if (!view.has_record) view.job_endpoint = FirstEndpoint(*parts.store, *job);
    }
  }
  if (view.has_job) {
    if (!caller.Sees(TenantOf(view.job_record))) return NoSuchBatch(id);
    return view;
  }
  if (!view.has_record) return NoSuchBatch(id);
  if (view.record.phase() == v1::BATCH_PHASE_MADE) {
    if (const absl::Status status = parts.batches->Remove({std::string(id)}); !status.ok()) {
      LogWarning("the record of a deleted batch stays for now: ", status.ToString());
    }
    return NoSuchBatch(id);
  }
  if (view.record.phase() == v1::BATCH_PHASE_FAILED) {
    ASSIGN_OR_RETURN(view.errors, parts.batches->Errors(id));
  }
  return view;
}

FileOwner OwnerOf(const ApiParts& parts, const Caller& caller) {
  return {caller.tenant, parts.access->FileBytesMax(caller)};
}

bool TakePage(const HttpRequest& request, std::vector<ListEntry> entries, int limit_default,
              int limit_max, Page* page, HttpReply* refusal) {
  int limit = limit_default;
  const std::string* const limit_text = request.Query("limit");
  if (limit_text != nullptr &&
      (!absl::SimpleAtoi(*limit_text, &limit) || limit < 1 || limit > limit_max)) {
    *refusal =
        BadParameter("limit", "invalid_value",
                     absl::StrCat("Invalid 'limit': expected a number from 1 to ", limit_max, "."));
    return false;
  }
  const std::string* const order = request.Query("order");
  if (order != nullptr && *order != "asc" && *order != "desc") {
    *refusal = BadParameter("order", "invalid_value",
                            "Invalid 'order': supported values are 'asc' and 'desc'.");
    return false;
  }
  const bool rising = order != nullptr && *order == "asc";
  std::sort(entries.begin(), entries.end(), [rising](const ListEntry& a, const ListEntry& b) {
    const auto key = [](const ListEntry& e) { return std::tie(e.created_at_ms, e.id); };
    return rising ? key(a) < key(b) : key(b) < key(a);
  });
  auto begin = entries.begin();
  const std::string* const after = request.Query("after");
  if (after != nullptr && !after->empty()) {
    begin = std::find_if(entries.begin(), entries.end(),
                         [&](const ListEntry& entry) { return entry.id == *after; });
    if (begin == entries.end()) {
      *refusal = BadParameter("after", "invalid_value",
                              "Invalid 'after': nothing in this list has that id.");
      return false;
    }
    ++begin;
  }
  const auto left = static_cast<size_t>(entries.end() - begin);
  const size_t size = std::min(left, static_cast<size_t>(limit));
  page->has_more = size < left;
  page->entries.assign(std::make_move_iterator(begin),
                       std::make_move_iterator(begin + static_cast<ptrdiff_t>(size)));
  return true;
}

HttpReply ListReply(const std::vector<std::string>& objects, const Page& page) {
  std::string json = "{\"object\":\"list\",\"data\":[";
  absl::StrAppend(&json, absl::StrJoin(objects, ","), "],\"first_id\":");
  const auto append_id = [&](const ListEntry* entry) {
    if (entry == nullptr) {
      absl::StrAppend(&json, "null");
    } else {
      AppendJsonString(json, entry->id);
    }
  };
  append_id(page.entries.empty() ? nullptr : &page.entries.front());
  absl::StrAppend(&json, ",\"last_id\":");
  append_id(page.entries.empty() ? nullptr : &page.entries.back());
  absl::StrAppend(&json, ",\"has_more\":", page.has_more ? "true" : "false", "}\n");
  return JsonReply(std::move(json));
}

}  // namespace nightshift
