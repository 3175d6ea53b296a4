// How many more requests a backend should be given now.
//
// A backend should never wait for the coordinator, and should not hoard what another could do
// sooner. So it holds its slots (`limit`, what it has in flight) and beside them a buffer of about
// 1.5 s of its measured rate; while no rate is known, one more set of slots. It is refilled when
// half of the buffer is used up, so that grants are batches and not single requests.
//
//   buffer    = rate known ? 1.5 s * rate, 1..kBufferMax : limit
//   target    = limit + buffer          refill when held < limit + ceil(buffer / 2)
//
// Near the end of the work, what is buffered by a slow backend is what everyone waits for. A
// backend's share of all that is unfinished is in proportion to its rate:
//
//   fair      = unfinished * rate / sum of rates         (held by whomever, or not held yet)
//   held_max  = fair <= limit ? max(1, ceil(fair)) : limit + floor((fair - limit) / 2)
//
// that is: no more slots than its share fills, and of its share of what runs nowhere yet at most
// half. In the bulk of a job `fair` is large and this does not bind. The bound is on what is held,
// not on one grant, so that asking more often gives no more. Tolerated: a backend that has just
// come has a low rate for some seconds, and so gets less of a tail than it could do.
//
// A backend whose calls take longer than the faster ones need for all that is left gets nothing
// more (the cut-off): the last of it would end after everything else. And what it has buffered is
// recalled once others stand idle, down to what it does in the time in which all would be done if
// it were shared out evenly.
//
// Rates of backends that have nothing to do say nothing about what they could do; so does the rate
// of a slow one from second to second. Both follow better from slots and latency (Little's law),
// except where calls are paced: see SpeedOf.
//
// Pure; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_BATCH_SIZER_H_
#define NIGHTSHIFT_COORDINATOR_CORE_BATCH_SIZER_H_

#include <cstdint>

namespace nightshift {

inline constexpr double kBufferSeconds = 1.5;
// More than this buffered beside the slots pays for nothing: a grant takes milliseconds.
inline constexpr int64_t kBufferMax = 4096;
// One grant is one message to the worker.
inline constexpr int64_t kGrantMax = 1024;

struct BackendLoad {
  int64_t limit = 0;  // 0 = takes nothing
  double rate = 0;    // requests per second; 0 = not known
  int64_t held = 0;   // leased to it and unanswered
};

// What a backend can do per second, from what it reports; 0 = not known. `in_flight` below `limit`
// with something buffered means that it is held up by a pace, and does what it may.
double SpeedOf(int64_t limit, int64_t in_flight, int64_t buffered, double rate, double latency);

// Whether a backend with calls of `latency` seconds, nine in ten of which take at most `spread`
// times that, should get nothing more of what others do in `seconds`, with calls of
// `other_latency`.
bool PastCutOff(double latency, double spread, double seconds, double other_latency);
// Faster, in the sense of the cut-off, are those whose calls take at most half as long.
inline constexpr double kFaster = 0.5;

// How many unstarted requests a backend with this speed should hand back when `done_in` seconds
// would be enough for all that is held if others helped. 0 while that saves too little.
int64_t RequestsToRecall(int64_t held, int64_t in_flight, double speed, double done_in);

// What it should hold when all goes well; 0 when it takes nothing.
int64_t TargetHeld(const BackendLoad& load);

// Whether it holds so little that it should be given more, the end of the job left aside.
bool WantsMore(const BackendLoad& load);

// How many more now, 0..kGrantMax. `fair` as above; the caller bounds the result by what there is.
int64_t RequestsToGrant(const BackendLoad& load, double fair);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_BATCH_SIZER_H_
