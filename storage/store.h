// The durable store of the coordinator: ordered byte keys and values in a fixed set of families,
// with atomic, conditional, synced commits. MemoryStore (tests, simulation) and RocksDbStore
// implement it and pass one conformance suite (tests/storage/store_conformance.h).
//
// Thread-safe. A commit that returned OK survives the loss of power; one that returned an error
// changed nothing that a reader can see. After Unavailable or DataLoss from Commit the store can no
// longer be trusted: Health() stays bad and every later commit fails, until the process starts
// again.
#ifndef NIGHTSHIFT_STORAGE_STORE_H_
#define NIGHTSHIFT_STORAGE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/write_set.h"

namespace nightshift {

struct ScanOptions {
  // Bytes to read ahead; 0 for short scans. A megabyte or two pays for a whole export.
  size_t readahead_bytes = 0;
  // Whether what is read should push other data out of the cache. Leave off for long scans.
  bool fill_cache = false;
};

// Goes through [begin, end) of one family in key order, over the state of the moment it was made.
// Not thread-safe. Keep it for seconds, not minutes: it pins what has been deleted since.
class StoreIterator {
 public:
  virtual ~StoreIterator() = default;
  virtual bool Valid() const = 0;
  // Only while Valid(); the views live until the next call on this iterator.
  virtual absl::string_view key() const = 0;
  virtual absl::string_view value() const = 0;
  virtual void Next() = 0;
  // Goes to the first key at or after `key` (inside the range).
  virtual void Seek(absl::string_view key) = 0;
  // OK while Valid() and at the end of the range; otherwise why it stopped early.
  virtual absl::Status status() const = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // Applies all of `writes`, or nothing. Returns Aborted when a condition of the set did not hold
  // (re-read and decide again), ResourceExhausted when the disk is full and nothing was written,
  // Unavailable when the write or its sync failed: the store is then untrustworthy.
  virtual absl::Status Commit(WriteSet writes) = 0;

  // OK, or the ResourceExhausted that a commit of `bytes` (WriteSet::byte_size) would get now. What
  // others write meanwhile can make either answer untrue. Cheap.
  virtual absl::Status CheckRoom(size_t bytes) const = 0;

  // NotFound when the key is absent.
  virtual absl::StatusOr<std::string> Get(Family family, absl::string_view key) const = 0;

  // [begin, end); an empty `end` means to the end of the family.
  virtual std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin,
                                              absl::string_view end,
                                              const ScanOptions& options = {}) const = 0;

  // OK, or why the store can no longer be trusted.
  virtual absl::Status Health() const = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_STORE_H_
