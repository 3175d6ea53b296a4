// A Store in memory, for tests and the simulation. What "survives" is decided by the test: the
// object itself is the disk.
#ifndef NIGHTSHIFT_STORAGE_MEMORY_STORE_H_
#define NIGHTSHIFT_STORAGE_MEMORY_STORE_H_

#include <memory>

#include "storage/store.h"

namespace nightshift {

std::unique_ptr<Store> NewMemoryStore();

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_MEMORY_STORE_H_
