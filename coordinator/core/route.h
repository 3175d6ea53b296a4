// Which of several backends answers which request of a job (v1::Route).
//
// The custom_id decides: its hash, a point between 0 and 1, falls into the share of a backend or
// outside of all. So the same requests go to the same backend in every run, and a share that grows
// from 10 % to 20 % keeps its first 10 %. A request whose first backend has failed at it, or is not
// there, goes on along the fallback.
//
// A request that belongs somewhere is in a lane: the lane of one backend; of every backend but one
// (after that one, where no fallback is named); or of every backend without a share. What lane a
// request is in is found out when its row is read, since nothing of a custom_id is in memory: a
// backend takes requests as they come, keeps its own, and the others wait in their lanes.
//
// Pure.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_ROUTE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_ROUTE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nightshift/v1/types.pb.h"

namespace nightshift {

using Lane = uint8_t;
inline constexpr Lane kNoLane = 0;  // not looked at yet

// Different backends that a route may name.
inline constexpr int kRouteBackendsMax = 16;

// InvalidArgument with what is wrong, for whoever wrote it.
absl::Status CheckRoute(const v1::Route& route);

class Router {
 public:
  // `route` has been checked.
  explicit Router(const v1::Route& route);

  // Lanes are numbered from 1 to this.
  int lanes() const { return static_cast<int>(2 * names_.size()) + 1; }
  Lane First(absl::string_view custom_id) const;
  // Where a request goes that cannot be answered in `lane`; `lane` itself at the end of the way.
  Lane Next(Lane lane) const;
  bool Serves(Lane lane, absl::string_view backend) const;
  // Whether there is a request that has gone at least so many steps, is with this backend, and has
  // a next one.
  bool MayMoveOn(int moves, absl::string_view backend) const;

 private:
  Lane Named(size_t name) const { return static_cast<Lane>(1 + name); }
  Lane AllBut(size_t name) const { return static_cast<Lane>(1 + names_.size() + name); }
  Lane Rest() const { return static_cast<Lane>(lanes()); }
  size_t Intern(const std::string& name);

  std::vector<std::string> names_;
  std::vector<double> ends_;  // of the shares, rising; share i is the one of name i
  std::vector<size_t> fallback_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_ROUTE_H_
