// What servers tell of their load: counters and gauges in Prometheus' form or in JSON, each server
// with names of its own. The names are rows of tables in the source file. Pure.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_SERVER_LOAD_H_
#define NIGHTSHIFT_WORKER_BACKENDS_SERVER_LOAD_H_

#include "absl/strings/string_view.h"
#include "nightshift/v1/types.pb.h"

namespace nightshift {

// Adds what a Prometheus text says, whichever server wrote it; figures of several engines add up,
// shares are their mean. What is not recognized is left out.
void ReadPrometheusLoad(absl::string_view text, v1::ServerLoad* load);

// The same of llama.cpp's GET /slots, and of TensorRT-LLM's GET /metrics (a list of iterations).
void ReadJsonLoad(absl::string_view text, v1::ServerLoad* load);

// Of `nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total,power.draw
// --format=csv,noheader,nounits`: a line for each GPU.
void ReadNvidiaSmi(absl::string_view text, v1::ServerLoad* load);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_SERVER_LOAD_H_
