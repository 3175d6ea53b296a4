// How a store of an older layout becomes one of this build. Used by schema.cc and its test; other
// code calls PrepareSchema().
#ifndef NIGHTSHIFT_STORAGE_SCHEMA_UPGRADES_H_
#define NIGHTSHIFT_STORAGE_SCHEMA_UPGRADES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "storage/store.h"

namespace nightshift {

struct SchemaUpgrade {
  uint32_t from;  // a store of version `from` becomes one of `from + 1`
  // Must give the same result when it is run again over its own half-finished work: the process may
  // die between its commits, and the version is written only after it returned.
  absl::Status (*run)(Store& store);
};

// PrepareSchema with the version and the steps of the caller's choice.
absl::Status PrepareSchemaWith(Store& store, uint32_t current,
                               const std::vector<SchemaUpgrade>& upgrades);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_SCHEMA_UPGRADES_H_
