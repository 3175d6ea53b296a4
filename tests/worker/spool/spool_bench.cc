// What keeping answers costs the loop's thread: CPU per answer, and the longest round. Run by hand:
//
//   spool_bench FOLDER [answers] [bytes per answer] [answers per round]
//
// In the first life each answer is forgotten a few rounds later, as with a coordinator that
// answers; in the second none is, as when it is away, and syncs run meanwhile.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "worker/spool/spool.h"

namespace nightshift {
namespace {

double ThreadMicros() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void Live(const std::string& folder, int answers, int bytes, int per_round, bool forget) {
  SpoolOptions options;
  options.folder = folder;
  options.bytes_max = int64_t{4} << 30;
  auto spool = Spool::Open(options);
  if (!spool.ok()) {
    std::printf("%s\n", std::string(spool.status().message()).c_str());
    std::exit(1);
  }
  (*spool)->Use("bench");
  v1::AttemptResult result;
  result.mutable_key()->set_job(1);
  result.set_backend("backend");
  result.set_kind(v1::AttemptResult::ANSWERED);
  result.set_http_status(200);
  result.set_request_id("req_0123456789");
  result.set_body(std::string(static_cast<size_t>(bytes), 'x'));
  result.mutable_usage()->set_prompt_tokens(100);
  result.set_finish_reason("stop");
  Clock& clock = Clock::Real();
  std::deque<uint64_t> kept;
  std::vector<uint64_t> numbers;
  absl::Duration longest;
  double cpu = 0;
  for (int i = 0; i < answers;) {
    const MonotonicTime start = clock.Now();
    const double before = ThreadMicros();
    for (int j = 0; j < per_round; ++j, ++i) {
      result.mutable_key()->set_index(static_cast<uint64_t>(i));
      kept.push_back((*spool)->Keep(result));
    }
    while (forget && kept.size() > static_cast<size_t>(8 * per_round)) {
      (*spool)->Forget(kept.front());
      kept.pop_front();
    }
    (*spool)->Flush(start);
    cpu += ThreadMicros() - before;
    longest = std::max(longest, clock.Now() - start);
  }
  const int64_t syncs = (*spool)->disk().syncs();
  std::printf(
      "%-18s %d x %d B, %d a round: %.2f us CPU per answer, longest round %.2f ms, %d syncs\n",
      forget ? "acknowledged" : "coordinator away", answers, bytes, per_round, cpu / answers,
      absl::ToDoubleMilliseconds(longest), static_cast<int>(syncs));
  for (const uint64_t number : kept) (*spool)->Forget(number);
}

}  // namespace
}  // namespace nightshift

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "spool-bench";
  const int answers = argc > 2 ? std::atoi(argv[2]) : 100'000;
  const int bytes = argc > 3 ? std::atoi(argv[3]) : 1000;
  const int per_round = argc > 4 ? std::atoi(argv[4]) : 4;
  nightshift::Live(folder, answers, bytes, per_round, true);
  nightshift::Live(folder, answers, bytes, per_round, false);
}
