// The GPUs of this machine, as `nvidia-smi` tells.
#ifndef NIGHTSHIFT_WORKER_GPU_FIGURES_H_
#define NIGHTSHIFT_WORKER_GPU_FIGURES_H_

#include "nightshift/v1/types.pb.h"

namespace nightshift {

// Adds utilization, memory and power of all GPUs here; nothing where there are none. Blocks for two
// seconds at most, and for no time where nvidia-smi is not installed. Thread-safe.
void AddGpuFigures(v1::ServerLoad* load);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_GPU_FIGURES_H_
