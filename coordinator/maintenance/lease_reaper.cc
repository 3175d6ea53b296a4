#include "coordinator/maintenance/lease_reaper.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace nightshift {

MaintenanceTask NewLeaseReaper(Dispatcher& dispatcher, Clock& clock) {
  return {"lease reaper", absl::Seconds(1),
          [&dispatcher, &clock, lapsed = dispatcher.lapsed_leases()]() mutable {
            dispatcher.Tick(clock.Now());
            const int64_t now_lapsed = dispatcher.lapsed_leases();
            if (now_lapsed == lapsed) return;
            LogWarning(now_lapsed - lapsed,
                       " leases have lapsed, since their workers have not been heard of; their "
                       "requests go to other workers. See `nightshift workers`");
            lapsed = now_lapsed;
          }};
}

}  // namespace nightshift
