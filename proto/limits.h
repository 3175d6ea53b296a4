// Bounds of what a message lists, for those on both sides of it.
#ifndef NIGHTSHIFT_PROTO_LIMITS_H_
#define NIGHTSHIFT_PROTO_LIMITS_H_

namespace nightshift {

// A worker tells at most so many models of a backend. With as many, there may be others.
inline constexpr int kModelsToldMax = 1000;

}  // namespace nightshift

#endif  // NIGHTSHIFT_PROTO_LIMITS_H_
