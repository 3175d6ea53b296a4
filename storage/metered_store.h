// A store that tells how long each commit took: a decorator around another one.
//
// Thread-safe, as the store within.
#ifndef NIGHTSHIFT_STORAGE_METERED_STORE_H_
#define NIGHTSHIFT_STORAGE_METERED_STORE_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "base/clock.h"
#include "storage/store.h"

namespace nightshift {

// `on_commit` is called after each commit, failed ones too, on the thread that made it. The clock
// must outlive the store.
std::unique_ptr<Store> NewMeteredStore(std::unique_ptr<Store> inner, Clock& clock,
                                       std::function<void(absl::Duration)> on_commit);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_METERED_STORE_H_
