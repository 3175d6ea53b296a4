// Preloaded into the program under test: each second one line in the file that
// $NIGHTSHIFT_HEAP_FILE names, with the bytes that are allocated in small pieces and in large ones
// (from 16 KiB on). The store's cache and buffers are made of large pieces and have a bound; what
// leaks is small.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

namespace {

using Mallctl = int (*)(const char*, void*, size_t*, void*, size_t);

// 4096 means all arenas together.
size_t Read(Mallctl mallctl, const char* name) {
  size_t value = 0;
  size_t size = sizeof(value);
  return mallctl(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

void* Watch(void* file) {
  const auto mallctl = reinterpret_cast<Mallctl>(dlsym(RTLD_DEFAULT, "mallctl"));
  if (mallctl == nullptr) return nullptr;
  for (uint64_t epoch = 1;; ++epoch) {
    size_t size = sizeof(epoch);
    mallctl("epoch", &epoch, &size, &epoch, size);
    fprintf(static_cast<FILE*>(file), "%zu %zu\n",
            Read(mallctl, "stats.arenas.4096.small.allocated"),
            Read(mallctl, "stats.arenas.4096.large.allocated"));
    fflush(static_cast<FILE*>(file));
    sleep(1);
  }
}

__attribute__((constructor)) void Start() {
  const char* const name = getenv("NIGHTSHIFT_HEAP_FILE");
  FILE* const file = name == nullptr ? nullptr : fopen(name, "a");
  if (file == nullptr) return;
  // The program takes its signals on a thread of its own.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  pthread_create(&thread, nullptr, Watch, file);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
