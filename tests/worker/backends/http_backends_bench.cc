// What a call costs: http_backends_bench URL [CALLS [CONCURRENCY [stream]]] keeps CONCURRENCY calls
// to URL in flight until CALLS have been answered, and prints this process's CPU time per call.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "worker/backends/http_backends.h"

namespace nightshift {
namespace {

double CpuSeconds(const rusage& use) {
  return use.ru_utime.tv_sec + use.ru_stime.tv_sec +
         1e-6 * (use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

int Main(int argc, char** argv) {
  int64_t calls = 100000;
  int64_t concurrency = 64;
  const bool stream = argc > 4 && absl::string_view(argv[4]) == "stream";
  if (argc < 2 || (argc > 2 && !absl::SimpleAtoi(argv[2], &calls)) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &concurrency))) {
    std::fprintf(stderr, "usage: http_backends_bench URL [CALLS [CONCURRENCY [stream]]]\n");
    return 2;
  }
  absl::StatusOr<BackendSpec> spec =
      ParseBackendSpec(argv[1], [](const char* name) -> const char* { return std::getenv(name); });
  if (!spec.ok()) {
    std::fprintf(stderr, "%s\n", std::string(spec.status().message()).c_str());
    return 2;
  }
  auto loop = EventLoop::Create({.backends = {*spec}}, Clock::Real());
  if (!loop.ok()) return 1;
  int64_t started = 0;
  int64_t finished = 0;
  int64_t failed = 0;
  const auto start_one = [&] {
    CallRequest request;
    request.id = ++started;
    request.endpoint = Endpoint::kChatCompletions;
    request.stream = stream;
    request.body = R"({"model":"m","messages":[{"role":"user","content":")" +
                   std::string(400, 'x') + R"("}],"max_tokens":64})";
    (*loop)->Start(std::move(request));
  };
  (*loop)->SetOnFinished([&](const CallOutcome& outcome) {
    ++finished;
    if (outcome.transport != Transport::kComplete || !outcome.has_answer) {
      if (failed++ == 0) std::fprintf(stderr, "%s\n", outcome.transport_detail.c_str());
    }
    if (started < calls) {
      start_one();
    } else if (finished == calls) {
      (*loop)->Stop();
    }
  });
  (*loop)->Post([&] {
    while (started < concurrency && started < calls) start_one();
  });
  rusage before;
  getrusage(RUSAGE_SELF, &before);
  const MonotonicTime begin = Clock::Real().Now();
  (*loop)->Run();
  const double seconds = absl::ToDoubleSeconds(Clock::Real().Now() - begin);
  rusage after;
  getrusage(RUSAGE_SELF, &after);
  std::printf(
      "%lld calls, %lld failed, %.0f calls/s, %.1f us of CPU per call (%.1f user), %ld MiB\n",
      static_cast<long long>(finished), static_cast<long long>(failed), finished / seconds,
      (CpuSeconds(after) - CpuSeconds(before)) * 1e6 / finished,
      (after.ru_utime.tv_sec - before.ru_utime.tv_sec +
       1e-6 * (after.ru_utime.tv_usec - before.ru_utime.tv_usec)) *
          1e6 / finished,
      after.ru_maxrss / 1024);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nightshift

int main(int argc, char** argv) { return nightshift::Main(argc, argv); }
