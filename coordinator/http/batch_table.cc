#include "coordinator/http/batch_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "coordinator/core/job_id.h"
#include "coordinator/http/rows.h"
#include "storage/record.h"

namespace nightshift {
namespace {

std::string WithPrefix(absl::string_view id, absl::string_view from, absl::string_view to) {
  if (!absl::ConsumePrefix(&id, from) || id.size() != kJobIdChars) return "";
  return absl::StrCat(to, id);
}

// What by_key_ and by_body_ find a batch by. No tenant's name has a LF.
std::string KeyOf(const v1::BatchRecord& record) {
  return absl::StrCat(record.tenant(), "\n", record.idempotency_key());
}
std::string BodyOf(const v1::BatchRecord& record) {
  return absl::StrCat(record.tenant(), "\n", record.body_hash());
}

absl::Status NoSuchBatch(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("No batch found with id '", id, "'."));
}

}  // namespace

std::string BatchIdOfJob(absl::string_view job_id) {
  return WithPrefix(job_id, kJobIdPrefix, kBatchIdPrefix);
}

std::string JobIdOfBatch(absl::string_view batch_id) {
  return WithPrefix(batch_id, kBatchIdPrefix, kJobIdPrefix);
}

BatchTable::BatchTable(Store& store, Clock& clock)
    : store_(store), clock_(clock), random_(Random::FromSystem()) {}

absl::StatusOr<std::unique_ptr<BatchTable>> BatchTable::Open(Store& store, Clock& clock) {
  std::unique_ptr<BatchTable> table(new BatchTable(store, clock));
  RETURN_IF_ERROR(table->Load());
  return table;
}

absl::Status BatchTable::Load() {
  return ReadRows(store_, kBatchRows, [this](absl::string_view key, absl::string_view value) {
    v1::BatchRecord record;
    RETURN_IF_ERROR(DecodeRecord(key, value, &record));
    MutexLock lock(&mutex_);
    Index(record);
    batches_[record.id()] = std::move(record);
    return absl::OkStatus();
  });
}

void BatchTable::Index(const v1::BatchRecord& record) {
  if (!record.idempotency_key().empty()) by_key_[KeyOf(record)] = record.id();
  // Rows are read in the order of their ids, which is not that of their age.
  const auto [place, is_new] = by_body_.try_emplace(BodyOf(record), record.id());
  if (is_new) return;
  const auto other = batches_.find(place->second);
  if (other == batches_.end() || other->second.created_at_ms() <= record.created_at_ms()) {
    place->second = record.id();
  }
}

std::string BatchTable::Earlier(const v1::BatchRecord& record, bool is_retry,
                                int64_t now_ms) const {
  if (!record.idempotency_key().empty()) {
    const auto found = by_key_.find(KeyOf(record));
    return found != by_key_.end() && batches_.contains(found->second) ? found->second : "";
  }
  if (!is_retry) return "";
  const auto found = by_body_.find(BodyOf(record));
  if (found == by_body_.end()) return "";
  const auto batch = batches_.find(found->second);
  const bool recent = batch != batches_.end() && now_ms - batch->second.created_at_ms() <=
                                                     absl::ToInt64Milliseconds(kRetryWindow);
  return recent ? found->second : "";
}

absl::StatusOr<v1::BatchRecord> BatchTable::Create(v1::BatchRecord record, bool is_retry,
                                                   bool* created,
                                                   absl::FunctionRef<absl::Status()> may_make) {
  *created = false;
  MutexLock commit_lock(&commit_mutex_);
  const absl::Time now = clock_.WallNow();
  {
    MutexLock lock(&mutex_);
    const std::string earlier = Earlier(record, is_retry, absl::ToUnixMillis(now));
    if (!earlier.empty()) {
      const v1::BatchRecord& found = batches_.find(earlier)->second;
      if (found.body_hash() == record.body_hash()) return found;
      return absl::FailedPreconditionError(
          absl::StrCat("This idempotency key has made ", earlier,
                       " already, from other parameters; use a new key for a new batch."));
    }
  }
  RETURN_IF_ERROR(may_make());
  record.set_id(BatchIdOfJob(NewJobId(now, random_)));
  last_created_ms_ = std::max(absl::ToUnixMillis(now), last_created_ms_ + 1);
  record.set_created_at_ms(last_created_ms_);
  record.set_phase(v1::BATCH_PHASE_VALIDATING);
  RETURN_IF_ERROR(Write(record, nullptr));
  *created = true;
  MutexLock lock(&mutex_);
  Index(record);
  batches_[record.id()] = record;
  return record;
}

absl::Status BatchTable::Write(const v1::BatchRecord& record, const v1::BatchErrors* errors) {
  WriteSet writes;
  PutRow(kBatchRows, record.id(), record, writes);
  if (errors != nullptr) PutRow(kBatchErrorRows, record.id(), *errors, writes);
  return store_.Commit(std::move(writes));
}

absl::StatusOr<v1::BatchRecord> BatchTable::Find(absl::string_view id) const {
  MutexLock lock(&mutex_);
  const auto found = batches_.find(std::string(id));
  if (found == batches_.end()) return NoSuchBatch(id);
  return found->second;
}

std::vector<BatchTable::Summary> BatchTable::List() const {
  std::vector<Summary> list;
  MutexLock lock(&mutex_);
  list.reserve(batches_.size());
  for (const auto& [id, record] : batches_) {
    list.push_back({id, record.created_at_ms(), record.phase(), record.tenant()});
  }
  return list;
}

std::vector<std::string> BatchTable::Validating() const {
  std::vector<Summary> list = List();
  std::erase_if(list, [](const Summary& s) { return s.phase != v1::BATCH_PHASE_VALIDATING; });
  std::sort(list.begin(), list.end(),
            [](const Summary& a, const Summary& b) { return a.created_at_ms < b.created_at_ms; });
  std::vector<std::string> ids;
  ids.reserve(list.size());
  for (Summary& summary : list) ids.push_back(std::move(summary.id));
  return ids;
}

std::vector<std::string> BatchTable::ValidatingWith(absl::string_view file_id) const {
  std::vector<std::string> ids;
  MutexLock lock(&mutex_);
  for (const auto& [id, record] : batches_) {
    if (record.phase() == v1::BATCH_PHASE_VALIDATING && record.input_file_id() == file_id) {
      ids.push_back(id);
    }
  }
  return ids;
}

absl::StatusOr<v1::BatchRecord> BatchTable::Update(
    absl::string_view id, absl::FunctionRef<void(v1::BatchRecord&)> change) {
  MutexLock commit_lock(&commit_mutex_);
  ASSIGN_OR_RETURN(v1::BatchRecord record, Find(id));
  change(record);
  RETURN_IF_ERROR(Write(record, nullptr));
  MutexLock lock(&mutex_);
  batches_[record.id()] = record;
  return record;
}

absl::Status BatchTable::Fail(absl::string_view id, const v1::BatchErrors& errors) {
  MutexLock commit_lock(&commit_mutex_);
  ASSIGN_OR_RETURN(v1::BatchRecord record, Find(id));
  record.set_phase(v1::BATCH_PHASE_FAILED);
  record.set_ended_at_ms(absl::ToUnixMillis(clock_.WallNow()));
  RETURN_IF_ERROR(Write(record, &errors));
  MutexLock lock(&mutex_);
  batches_[record.id()] = std::move(record);
  return absl::OkStatus();
}

absl::StatusOr<v1::BatchErrors> BatchTable::Errors(absl::string_view id) const {
  const std::string key = RowKey(kBatchErrorRows, id);
  ASSIGN_OR_RETURN(const std::string value, store_.Get(Family::kFiles, key));
  v1::BatchErrors errors;
  RETURN_IF_ERROR(DecodeRecord(key, value, &errors));
  return errors;
}

absl::Status BatchTable::Remove(const std::vector<std::string>& ids) {
  MutexLock commit_lock(&commit_mutex_);
  WriteSet writes;
  for (const std::string& id : ids) {
    writes.Delete(Family::kFiles, RowKey(kBatchRows, id));
    writes.Delete(Family::kFiles, RowKey(kBatchErrorRows, id));
  }
  RETURN_IF_ERROR(store_.Commit(std::move(writes)));
  MutexLock lock(&mutex_);
  for (const std::string& id : ids) Forget(id);
  return absl::OkStatus();
}

void BatchTable::Forget(const std::string& id) {
  const auto found = batches_.find(id);
  if (found == batches_.end()) return;
  const auto erase = [&id](std::map<std::string, std::string>& index, const std::string& key) {
    const auto entry = index.find(key);
    if (entry != index.end() && entry->second == id) index.erase(entry);
  };
  erase(by_key_, KeyOf(found->second));
  erase(by_body_, BodyOf(found->second));
  batches_.erase(found);
}

std::vector<std::string> BatchTable::EndedBefore(int64_t ms) const {
  std::vector<std::string> ids;
  MutexLock lock(&mutex_);
  for (const auto& [id, record] : batches_) {
    const bool without_job =
        record.phase() == v1::BATCH_PHASE_FAILED || record.phase() == v1::BATCH_PHASE_CANCELLED;
    if (without_job && record.ended_at_ms() < ms) ids.push_back(id);
  }
  return ids;
}

}  // namespace nightshift
