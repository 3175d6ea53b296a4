// What becomes of the requests that a lost worker held: one of them may be what killed it.
//
// Which of its requests a dead worker was calling for is known to nobody, so all that it held are
// under suspicion, and are handed out with a caution that grows with the workers lost over them:
//
//   ordinary   none lost          goes out in any number
//   suspect    one                at most kSuspectsPerWorker of them in one worker at a time,
//                                 beside whatever else it does, so that its death leads to few
//   accused    two or more        alone, to a worker that holds nothing and gets nothing else, and
//                                 that has been up for a lease's time to live
//
// An answer clears a request. The death of a worker over an accused request convicts it: its
// outcome is `failed`, `worker_crashed`. So a request that kills whoever calls it costs three
// workers, the other requests of those go on, and each of them costs at most one call more per
// worker lost.
//
// What is no evidence:
//   a worker that was draining, or that comes back with the same session (a partition, a machine
//     that stood still), however late: what was counted is taken back;
//   a death together with another worker's that had nothing on trial (a rack loses its power): it
//     counts, but convicts only from kLostMax on. One that was known when the trial began is not
//     together with it: the trial came of it;
//   a worker that dies young, since it may be what is broken: accused requests wait for one that
//     has lived for `lease_ttl`. A fleet whose workers never live that long never tries them.
// A worker with an accused request is given kTrialPatience times lease_ttl to come back.
//
// A backend that dies breaks the connection of every request that it is working on, and each is
// charged an attempt, the one that killed it among them. So that the others do not share its fate
// to the end, a request whose last charged attempt ended with its connection goes out with caution
// too, by the attempts that it has left:
//
//   four or more   as any other; the waits before the next attempt scatter those that were together
//   three          as a suspect
//   two or one     lone: one of them at a server at a time, beside whatever else it does and
//                  whichever workers call it
//
// So a request that kills its backends fails when its own attempts are used up (max_attempts of the
// job), and those that were with it each time have two left. A service of many machines, which
// names no server, gets one from each worker; and a job with one attempt has none to lose. Workers
// that call one server by different names are not seen to share it. Broken connections are common
// in some networks: nothing ever stands still for this.
//
// Bounds. A request that kills workers costs at most three of them; one more for each time that the
// coordinator itself went down between such a death and its commit, or was down when it happened
// (nobody can tell then what the worker held); up to kLostMax while other workers die at the same
// moment. Many such requests cost three each at most, and share the first two. A request that kills
// nobody fails only if it is held by three workers that die, the last one while it is alone in it
// and no other worker dies with it; in a fleet of one worker there is no other, and one loss of
// power too many at just that time would do it. `run` holds coordinator and worker in one process:
// nothing there outlives such a death, and nothing is isolated.
//
// Pure; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_POISON_H_
#define NIGHTSHIFT_COORDINATOR_CORE_POISON_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace nightshift {

enum class Caution : uint8_t { kOrdinary, kSuspect, kLone, kAccused };
inline constexpr int kCautions = 4;

// Few leave few to be tried alone when their worker dies (each takes a call's time in which the
// worker does nothing else); many clear the innocent sooner.
inline constexpr int64_t kSuspectsPerWorker = 16;
// Workers lost over one request, after which it is convicted whoever else died.
inline constexpr int32_t kLostMax = 5;
// Times lease_ttl that a worker with an accused request may be silent.
inline constexpr int kTrialPatience = 3;
// Workers last heard of within this of each other, or a quarter of lease_ttl if that is less, died
// together: reports come every second.
inline constexpr absl::Duration kLostTogether = absl::Seconds(5);

// `attempts_left`: of a request whose last charged attempt ended with its connection; of others
// kAttemptsPlenty.
Caution CautionFor(int32_t lost_workers, int32_t attempts_left);
inline constexpr int32_t kAttemptsPlenty = std::numeric_limits<int32_t>::max();

// How many requests with this caution one worker may hold, or of kLone one server; for kAccused see
// TrialsMax.
int64_t HeldMax(Caution caution);

// Whether the loss of a worker ends the request. `lost_before`: workers lost over it before this
// one. `alone`: the worker was given it as accused, and held nothing else. `together`: another
// worker, with nothing on trial, died at the same time.
bool IsConvicted(int32_t lost_before, bool alone, bool together);

// How many of `workers` connected workers may have an accused request: while they have other work,
// one; otherwise half, so that the rest can show whether a death is theirs alone.
int64_t TrialsMax(int64_t workers, bool other_work);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_POISON_H_
