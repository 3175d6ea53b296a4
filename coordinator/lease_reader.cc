#include "coordinator/lease_reader.h"

#include <utility>

#include "base/status_macros.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

// From this many items of one job in a row on, an iterator is cheaper than single reads.
constexpr size_t kRunMin = 4;
// Rows that lie between two wanted ones are stepped over up to this many, otherwise sought past.
constexpr uint64_t kStepMax = 8;
// Keys, numbers and framing of one request in a message, about.
constexpr size_t kBytesPerRequest = 32;
constexpr size_t kFactsMax = 1024;  // then they are read again

bool StartsRun(const Grant& grant, size_t item) {
  return item + kRunMin <= grant.items.size() &&
         grant.items[item + kRunMin - 1].id.job == grant.items[item].id.job;
}

}  // namespace

LeaseReader::LeaseReader(const Store& store, const Dispatcher& dispatcher, Limits limits)
    : store_(store), dispatcher_(dispatcher), limits_(limits) {}

size_t LeaseReader::Fill(const Grant& grant, size_t from, v1::Lease* lease, size_t* bytes,
                         std::vector<Unreadable>* unreadable) {
  lease->set_id(grant.lease_id);
  lease->set_backend(grant.backend);
  *bytes = 0;
  size_t item = from;
  for (; item < grant.items.size() && lease->requests_size() < limits_.requests_max; ++item) {
    const Grant::Item& wanted = grant.items[item];
    const absl::StatusOr<JobFacts> facts = Facts(wanted.id.job);
    if (!facts.ok()) {
      unreadable->push_back({wanted.id, facts.status()});
      continue;
    }
    absl::StatusOr<v1::RequestRecord> record = Read(grant, item);
    if (!record.ok()) {
      unreadable->push_back({wanted.id, record.status()});
      continue;
    }
    const size_t size = record->body().size() + record->custom_id().size() + kBytesPerRequest;
    if (lease->requests_size() > 0 && *bytes + size > limits_.bytes_max) {
      ahead_ = *std::move(record);
      break;
    }
    *bytes += size;
    v1::LeasedRequest& request = *lease->add_requests();
    request.mutable_key()->set_job(wanted.id.job);
    request.mutable_key()->set_index(wanted.id.index);
    request.set_endpoint(record->endpoint());
    request.set_body(std::move(*record->mutable_body()));
    request.set_custom_id(std::move(*record->mutable_custom_id()));
    request.set_attempt(wanted.attempt);
    request.set_run(wanted.run);
    request.set_priority(wanted.priority);
    request.set_request_timeout_ms(facts->request_timeout_ms);
    request.set_stream(facts->stream);
    request.set_on_truncated(facts->on_truncated);
    request.set_on_empty(facts->on_empty);
  }
  return item;
}

void LeaseReader::End() {
  iterator_.reset();
  ahead_.reset();
}

absl::StatusOr<LeaseReader::JobFacts> LeaseReader::Facts(JobNumber job) {
  const auto found = facts_.find(job);
  if (found != facts_.end()) return found->second;
  ASSIGN_OR_RETURN(const v1::JobRecord record, dispatcher_.GetRecord(job));
  if (facts_.size() >= kFactsMax) facts_.clear();
  const JobFacts facts{record.options().request_timeout_ms(), record.options().stream(),
                       record.options().on_truncated(), record.options().on_empty()};
  facts_.emplace(job, facts);
  return facts;
}

absl::StatusOr<v1::RequestRecord> LeaseReader::Read(const Grant& grant, size_t item) {
  if (ahead_.has_value()) {
    v1::RequestRecord record = *std::move(ahead_);
    ahead_.reset();
    return record;
  }
  const RequestId id = grant.items[item].id;
  const std::string key = RequestRowKey(id.job, id.index);
  const bool have_iterator = iterator_ != nullptr && iterator_at_.job == id.job;
  if (have_iterator || StartsRun(grant, item)) {
    if (!have_iterator) {
      // From the job's first row on: what came back goes out before what lies further ahead.
      iterator_ = store_.Scan(Family::kRequests, JobKey(id.job), JobKey(id.job + 1));
      iterator_->Seek(key);
      iterator_at_ = id;
    }
    return ReadByIterator(id, key);
  }
  ASSIGN_OR_RETURN(const std::string value, store_.Get(Family::kRequests, key));
  v1::RequestRecord record;
  RETURN_IF_ERROR(DecodeRecord(key, value, &record));
  return record;
}

absl::StatusOr<v1::RequestRecord> LeaseReader::ReadByIterator(RequestId id,
                                                              const std::string& key) {
  if (id.index < iterator_at_.index || id.index - iterator_at_.index > kStepMax) {
    iterator_->Seek(key);
  }
  while (iterator_->Valid() && iterator_->key() < key) iterator_->Next();
  iterator_at_ = id;
  RETURN_IF_ERROR(iterator_->status());
  if (!iterator_->Valid() || iterator_->key() != key) {
    return absl::NotFoundError("the row is not there");
  }
  v1::RequestRecord record;
  RETURN_IF_ERROR(DecodeRecord(key, iterator_->value(), &record));
  return record;
}

}  // namespace nightshift
