// Why a job does not get on, in words: what `status` shows a person who wonders.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_WAITING_H_
#define NIGHTSHIFT_COORDINATOR_CORE_WAITING_H_

#include <string>

#include "base/clock.h"
#include "coordinator/core/job_table.h"
#include "coordinator/core/model_sets.h"
#include "coordinator/core/worker_registry.h"

namespace nightshift {

// Empty when the job has ended or nothing holds it up.
std::string WaitingFor(const Job& job, const WorkerRegistry& registry, const ModelSets& sets,
                       MonotonicTime now);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_WAITING_H_
