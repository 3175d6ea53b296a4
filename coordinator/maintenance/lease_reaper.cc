#include "coordinator/maintenance/lease_reaper.h"

#include <memory>

#include "base/log.h"
#include "base/units.h"

namespace nightshift {
namespace {

class LeaseReaper {
 public:
  LeaseReaper(Dispatcher& dispatcher, Clock& clock)
      : dispatcher_(dispatcher),
        clock_(clock),
        lapsed_(dispatcher.lapsed_leases()),
        last_run_(clock.Now()),
        listens_until_(last_run_) {}

  void Run() {
    const MonotonicTime now = clock_.Now();
    if (now - last_run_ > kPauseNoticed) {
      LogWarning("the coordinator did not run for ", HumanDuration(now - last_run_),
                 "; no lease lapses before its workers have had time to be heard");
      listens_until_ = now + kListenAfterStop;
    }
    last_run_ = now;
    if (now < listens_until_) return;
    dispatcher_.Tick(now);
    const int64_t lapsed = dispatcher_.lapsed_leases();
    if (lapsed == lapsed_) return;
    LogWarning(lapsed - lapsed_,
               " leases have lapsed, since their workers have not been heard of; their requests go "
               "to other workers. See `nightshift workers`");
    lapsed_ = lapsed;
  }

 private:
  Dispatcher& dispatcher_;
  Clock& clock_;
  int64_t lapsed_;
  MonotonicTime last_run_;
  MonotonicTime listens_until_;
};

}  // namespace

MaintenanceTask NewLeaseReaper(Dispatcher& dispatcher, Clock& clock) {
  return {"lease reaper", absl::Seconds(1),
          [reaper = std::make_shared<LeaseReaper>(dispatcher, clock)] { reaper->Run(); }};
}

}  // namespace nightshift
