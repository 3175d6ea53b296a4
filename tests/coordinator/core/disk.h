// What a committer and a store do around a Dispatcher, in memory: it keeps what was committed, and
// checks that no outcome and no terminal state is ever written twice. A test crashes the
// coordinator by making a new Dispatcher and loading it from here.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_CORE_DISK_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_CORE_DISK_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "coordinator/core/dispatcher.h"

namespace nightshift {

struct DiskJob {
  v1::JobRecord record;
  std::vector<std::string> bitmaps;
  v1::ProgressSums sums;
  std::map<uint64_t, v1::OutcomeRecord> outcomes;
  std::map<uint64_t, v1::AttemptRecord> attempts;
};

class Disk {
 public:
  // The effect of a durable commit. Fails the test on a second outcome, or on a change of a job
  // that has ended within its run.
  void Write(const CommitPlan& plan);
  std::vector<LoadedJob> Read() const;

  std::map<JobNumber, DiskJob> jobs;

 private:
  void Write(const ResultDecision& decision);
  static void Finish(DiskJob* job, uint64_t index);
};

// Prepare, write, Apply; the messages for workers come back.
struct Committed {
  CommitPlan plan;
  std::vector<absl::Status> statuses;  // one per command
  std::vector<Outgoing> outgoing;
};
Committed Commit(Dispatcher& dispatcher, Disk& disk, Clock& clock,
                 const std::vector<ResultEvent>& results, const std::vector<JobCommand>& commands);

// --- short forms -----------------------------------------------------------------------------

JobCommand Seal(JobNumber job, int64_t total);
JobCommand Command(JobCommand::Kind kind, JobNumber job);
ResultEvent Result(WorkerNumber worker, RequestId id, v1::AttemptResult::Kind kind);
ResultEvent Answered(WorkerNumber worker, RequestId id);
// A charged failure that may be tried again, of a request that was leased with so many charged.
ResultEvent Failed(WorkerNumber worker, RequestId id, int32_t attempt = 0);
v1::Hello HelloOf(const std::string& name, const std::string& session,
                  const std::vector<std::string>& models = {});
v1::Report ReportOf(int32_t limit, double rate, const std::vector<std::string>& models = {});
void Hold(v1::Hello* hello, RequestId id, bool answered);
bool Terminal(v1::JobState state);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_CORE_DISK_H_
