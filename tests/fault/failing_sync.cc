// Preloaded into the program under test: while the file that $NIGHTSHIFT_FAIL_SYNCS names is there,
// the sync of any log fails as it does on a dying disk.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

bool IsLog(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof(path));
  return size > 4 && memcmp(path + size - 4, ".log", 4) == 0;
}

}  // namespace

extern "C" int fdatasync(int fd) {
  using Function = int (*)(int);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "fdatasync"));
  const char* const order = getenv("NIGHTSHIFT_FAIL_SYNCS");
  if (order != nullptr && access(order, F_OK) == 0 && IsLog(fd)) {
    errno = EIO;
    return -1;
  }
  return real(fd);
}
