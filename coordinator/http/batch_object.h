// Batches and files as the JSON objects of the API.
//
// Pure functions; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCH_OBJECT_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCH_OBJECT_H_

#include <cstdint>
#include <string>

#include "nightshift/v1/files.pb.h"
#include "nightshift/v1/jobs.pb.h"
#include "nightshift/v1/record.pb.h"

namespace nightshift {

// Everything there is to tell of a batch. What came from the command line has no record, what is
// still being checked (or was refused) no job.
struct BatchView {
  bool has_record = false;
  v1::BatchRecord record;
  bool has_job = false;
  v1::JobStatus job;
  v1::JobRecord job_record;
  v1::Endpoint job_endpoint = v1::ENDPOINT_UNSPECIFIED;  // of its first request
  v1::BatchErrors errors;                                // of a batch that was refused
};

// "validating", "in_progress", …
std::string BatchStatusOf(const BatchView& view);
int64_t BatchCreatedAtMs(const BatchView& view);
std::string BatchObject(const BatchView& view);

// Seconds that an output lives after the end of its job, unless the batch says otherwise.
inline constexpr int64_t kOutputLifetimeSeconds = 30 * 86400;
// When the outputs of an ended job expire, in milliseconds.
int64_t OutputExpiresAtMs(const BatchView& view);

std::string FileObject(const v1::FileRecord& record);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCH_OBJECT_H_
