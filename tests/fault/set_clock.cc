// Preloaded into the program under test: its wall clock is ahead by the seconds that stand in the
// file which $NIGHTSHIFT_CLOCK_FILE names. The monotonic clock is left alone, as by setting a
// machine's clock. (libfaketime cannot be loaded beside jemalloc.)
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Allocates nothing: the allocator itself asks for the time.
time_t Ahead() {
  const char* const name = getenv("NIGHTSHIFT_CLOCK_FILE");
  const int fd = name == nullptr ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32] = "";
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  return size > 0 ? atol(text) : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  static const auto real = Real<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int code = real(clock, out);
  if (clock == CLOCK_REALTIME && code == 0) out->tv_sec += Ahead();
  return code;
}

int gettimeofday(timeval* out, void* zone) noexcept {
  static const auto real = Real<int (*)(timeval*, void*)>("gettimeofday");
  const int code = real(out, zone);
  if (code == 0) out->tv_sec += Ahead();
  return code;
}

time_t time(time_t* out) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

// Abseil waits until a wall-clock time, which the kernel compares with its own.
long syscall(long number, ...) noexcept {
  using Function = long (*)(long, long, long, long, long, long, long);
  static const auto real = Real<Function>("syscall");
  long a[6];
  va_list list;
  va_start(list, number);
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  timespec until;
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0) {
    until = *reinterpret_cast<const timespec*>(a[3]);
    until.tv_sec -= Ahead();
    a[3] = reinterpret_cast<long>(&until);
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"
