// Names of threads, for those who look at the process from outside: top -H, perf, a debugger.
#ifndef NIGHTSHIFT_BASE_THREAD_NAME_H_
#define NIGHTSHIFT_BASE_THREAD_NAME_H_

namespace nightshift {

// Names the calling thread. The kernel keeps 15 characters.
void NameThisThread(const char* name);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_THREAD_NAME_H_
