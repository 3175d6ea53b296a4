// Reads the requests of a grant from the store into lease messages.
//
// A grant is mostly a run of neighbours, which one iterator reads at a fraction of the cost of
// single reads. Not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_LEASE_READER_H_
#define NIGHTSHIFT_COORDINATOR_LEASE_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/dispatcher.h"
#include "nightshift/v1/record.pb.h"
#include "nightshift/v1/worker.pb.h"
#include "storage/store.h"

namespace nightshift {

class LeaseReader {
 public:
  struct Limits {
    int requests_max;
    // A request that is larger goes alone.
    size_t bytes_max;
  };
  // A request that is leased and cannot be sent, since its row is missing or damaged.
  struct Unreadable {
    RequestId id;
    absl::Status status;
  };

  // The references must outlive it.
  LeaseReader(const Store& store, const Dispatcher& dispatcher, Limits limits);

  // Adds requests of `grant`, from item `from` on, until a limit is reached. Returns the item after
  // the last one that was added or found unreadable. `bytes` becomes about the message's size.
  size_t Fill(const Grant& grant, size_t from, v1::Lease* lease, size_t* bytes,
              std::vector<Unreadable>* unreadable);

  // Lets go of the store's iterator and of what was read ahead; call after each grant.
  void End();

 private:
  // What every lease of a job repeats.
  struct JobFacts {
    int64_t request_timeout_ms = 0;
    bool stream = false;
    v1::AnswerPolicy on_truncated = v1::ANSWER_POLICY_KEEP;
    v1::AnswerPolicy on_empty = v1::ANSWER_POLICY_KEEP;
  };

  absl::StatusOr<JobFacts> Facts(JobNumber job);
  absl::StatusOr<v1::RequestRecord> Read(const Grant& grant, size_t item);
  absl::StatusOr<v1::RequestRecord> ReadByIterator(RequestId id, const std::string& key);

  const Store& store_;
  const Dispatcher& dispatcher_;
  const Limits limits_;

  // Options of a job never change, so that what was once read stays true.
  std::unordered_map<JobNumber, JobFacts> facts_;

  std::unique_ptr<StoreIterator> iterator_;
  RequestId iterator_at_;  // at or before where the iterator stands, in the job it goes through
  // Read, but too large for the message that was being filled: the first of the next.
  std::optional<v1::RequestRecord> ahead_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_LEASE_READER_H_
