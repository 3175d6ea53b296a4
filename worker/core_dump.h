// What the kernel, or a debugger, writes of this process when it dies.
#ifndef NIGHTSHIFT_WORKER_CORE_DUMP_H_
#define NIGHTSHIFT_WORKER_CORE_DUMP_H_

namespace nightshift {

// From now on a core dump of this process holds registers and the list of its libraries, but none
// of its memory, where keys and prompts are.
void KeepMemoryOutOfCoreDumps();

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_DUMP_H_
