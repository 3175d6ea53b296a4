// Where answers outlive the worker's process, as the outbox and the runner see it. The real one is
// worker/spool; without one, what is not acknowledged dies with the process.
//
// Called on the loop's thread only. Nothing here waits for a disk.
#ifndef NIGHTSHIFT_WORKER_CORE_SPOOL_PORT_H_
#define NIGHTSHIFT_WORKER_CORE_SPOOL_PORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nightshift/v1/worker.pb.h"

namespace nightshift {

struct KeptResult {
  uint64_t number = 0;  // the spool's name for it
  v1::AttemptResult result;
};

class SpoolPort {
 public:
  virtual ~SpoolPort() = default;

  // The store for which answers were kept last; empty when none are.
  virtual std::string LastStore() const = 0;
  // From now on answers belong to this store. Returns those that earlier processes (or earlier
  // times of this one) have left for it, oldest first. What is kept for other stores stays.
  virtual std::vector<KeptResult> Use(const std::string& store) = 0;

  // Keeps the answer, and returns its number. When it cannot be written now, Blocked() says so and
  // it is written as soon as possible.
  virtual uint64_t Keep(const v1::AttemptResult& result) = 0;
  // It is needed no more.
  virtual void Forget(uint64_t number) = 0;

  // No new call should start: its answer might not be kept.
  virtual bool Blocked() const = 0;
  // What it waits for, in words; empty unless blocked.
  virtual std::string WaitingFor() const = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_SPOOL_PORT_H_
