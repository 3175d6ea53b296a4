// The version of the layout of a store, and the counters that outlive a process.
#ifndef NIGHTSHIFT_STORAGE_SCHEMA_H_
#define NIGHTSHIFT_STORAGE_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "storage/store.h"

namespace nightshift {

// Raise it with every change of keys or records that an older program would misread, and add the
// step to kUpgrades in schema.cc.
inline constexpr uint32_t kSchemaVersion = 1;

// Call once after opening, before anything else is read. A new store gets the current version; an
// older one is upgraded step by step; FailedPrecondition for a newer one, naming both versions.
absl::Status PrepareSchema(Store& store);

// The number of this run of the coordinator: one more than the last, synced before it is returned.
absl::StatusOr<uint64_t> StartEpoch(Store& store);

// What tells this store from every other one: 32 hexadecimal digits, made when it is first asked
// for and never changed. Numbers of jobs mean something only together with it. A copy of a store
// has the same id: whoever makes one that lives on beside the original, or that hands out job
// numbers again, must give it a new one.
absl::StatusOr<std::string> StoreId(Store& store, Random& random);

// Gives the store another id, synced, and returns it: it is no longer the one it was copied from.
absl::StatusOr<std::string> RenewStoreId(Store& store, Random& random);

// A job number that was never handed out before. Thread-safe.
absl::StatusOr<uint64_t> NextJobNumber(Store& store);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_SCHEMA_H_
