#include "tests/coordinator/jobs/crash_scenario.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/jobs/reopen.h"
#include "storage/keys.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

JobWorld::Options ScenarioOptions() {
  JobWorld::Options options;
  options.committer.deltas_per_chunk_max = 2;
  return options;
}

class Scenario {
 public:
  Scenario(JobWorld& world, Confirmed* confirmed) : world_(world), confirmed_(*confirmed) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(const JobNumber first, Submit(JobWorld::Requests(0, 24), false));
    RETURN_IF_ERROR(AnswerSome(10, 2));
    v1::SubmitRequests with_bad = JobWorld::Requests(0, 9);
    with_bad.mutable_requests(2)->set_body("not JSON");
    with_bad.mutable_requests(7)->set_custom_id("r-1");
    ASSIGN_OR_RETURN(const JobNumber second, Submit(std::move(with_bad), true));
    RETURN_IF_ERROR(AnswerSome(6, 3));
    RETURN_IF_ERROR(Refused());
    RETURN_IF_ERROR(world_.Control(first, JobCommand::Kind::kPause));
    RETURN_IF_ERROR(world_.Control(first, JobCommand::Kind::kResume));
    RETURN_IF_ERROR(Cancel(second));
    RETURN_IF_ERROR(FinishAll());
    RETURN_IF_ERROR(ReopenJob(world_.store(), world_.committer(), world_.dispatcher(), first, {}));
    RETURN_IF_ERROR(AnswerSome(2, 1));
    RETURN_IF_ERROR(FinishAll());
    RETURN_IF_ERROR(Delete(second));
    ASSIGN_OR_RETURN(const JobNumber third, Submit(JobWorld::Requests(0, 5), false));
    RETURN_IF_ERROR(AnswerSome(2, 1));
    return world_.Control(third, JobCommand::Kind::kPause);
  }

 private:
  absl::StatusOr<JobNumber> Submit(v1::SubmitRequests requests, bool skip_bad_lines) {
    v1::SubmitBegin begin;
    begin.set_skip_bad_lines(skip_bad_lines);
    ASSIGN_OR_RETURN(const v1::SubmitReply reply, world_.Submit(std::move(requests), begin, ""));
    confirmed_.jobs.insert(reply.job().id());
    return world_.dispatcher().FindJob(reply.job().id());
  }

  absl::Status Refused() {
    v1::SubmitRequests requests = JobWorld::Requests(0, 3);
    requests.mutable_requests(1)->set_body("[]");
    ASSIGN_OR_RETURN(const v1::SubmitReply reply, world_.Submit(std::move(requests), {}, ""));
    EXPECT_EQ(reply.result(), v1::SubmitReply::REFUSED);
    return absl::OkStatus();
  }

  // Leases `count` and delivers results of all kinds, `at_once` in a message.
  absl::Status AnswerSome(int64_t count, size_t at_once) {
    ASSIGN_OR_RETURN(const std::vector<RequestId> ids, world_.Lease(count));
    for (size_t at = 0; at < ids.size(); at += at_once) {
      std::vector<v1::AttemptResult> results;
      std::vector<RequestId> answered;
      for (size_t i = at; i < std::min(ids.size(), at + at_once); ++i) {
        const v1::AttemptResult::Kind kind = i % 5 == 3   ? v1::AttemptResult::REJECTED
                                             : i % 5 == 4 ? v1::AttemptResult::RETRY
                                                          : v1::AttemptResult::ANSWERED;
        results.push_back(world_.Result(ids[i], kind));
        if (kind == v1::AttemptResult::ANSWERED) answered.push_back(ids[i]);
      }
      RETURN_IF_ERROR(world_.Deliver(std::move(results)));
      confirmed_.answered.insert(answered.begin(), answered.end());
    }
    return absl::OkStatus();
  }

  absl::Status FinishAll() {
    for (;;) {
      world_.clock().Advance(absl::Hours(2));
      ASSIGN_OR_RETURN(const std::vector<RequestId> ids, world_.Lease(7));
      if (ids.empty()) return absl::OkStatus();
      RETURN_IF_ERROR(world_.Answer(ids));
      confirmed_.answered.insert(ids.begin(), ids.end());
    }
  }

  absl::Status Cancel(JobNumber job) {
    do {
      RETURN_IF_ERROR(world_.Control(job, JobCommand::Kind::kCancel));
    } while (!JobHasEnded(world_.Status(job).state()));
    return absl::OkStatus();
  }

  absl::Status Delete(JobNumber job) {
    const std::string id = world_.Status(job).id();
    confirmed_.maybe_gone.insert(id);
    RETURN_IF_ERROR(world_.Control(job, JobCommand::Kind::kDelete));
    confirmed_.gone.insert(id);
    return absl::OkStatus();
  }

  JobWorld& world_;
  Confirmed& confirmed_;
};

std::string LineIdOf(const std::string& line) {
  const size_t begin = line.find("\"id\":\"") + 6;
  return line.substr(begin, line.find('"', begin) - begin);
}

void ExpectEachRequestInOneFile(JobWorld& world, JobNumber job) {
  std::set<std::string> ids;
  int64_t lines = 0;
  for (const auto kind : {v1::ReadOutputRequest::RESULTS, v1::ReadOutputRequest::ERRORS}) {
    for (const std::string& line : world.Lines(job, kind)) {
      ids.insert(LineIdOf(line));
      ++lines;
    }
  }
  EXPECT_EQ(lines, world.Status(job).counts().total());
  EXPECT_EQ(static_cast<int64_t>(ids.size()), lines);
}

// Every row belongs to a job that there is.
void ExpectNoOrphans(Store& store, const JobWorld& world) {
  for (int i = 1; i < kFamilyCount; ++i) {
    const auto scan = store.Scan(static_cast<Family>(i), "", "");
    for (; scan->Valid(); scan->Next()) {
      const JobNumber job = *ParseJobKey(scan->key().substr(0, 8));
      EXPECT_TRUE(const_cast<JobWorld&>(world).dispatcher().GetRecord(job).ok())
          << FamilyName(static_cast<Family>(i)) << " has a row of job number " << job;
    }
  }
}

}  // namespace

absl::Status RunScenario(Store& store, Confirmed* confirmed) {
  JobWorld world(store, ScenarioOptions());
  const absl::Status status = Scenario(world, confirmed).Run();
  if (status.ok()) world.committer().Shutdown();
  return status;
}

void CheckAfterCrash(Store& store, const Confirmed& confirmed) {
  JobWorld world(store, ScenarioOptions());
  ExpectNoOrphans(store, world);
  std::set<std::string> there;
  for (const JobNumber job : world.dispatcher().ListJobs()) {
    there.insert(world.Status(job).id());
    world.ExpectAuditAgrees(job);
  }
  for (const std::string& id : confirmed.jobs) {
    EXPECT_TRUE(there.count(id) > 0 || confirmed.maybe_gone.count(id) > 0) << id << " is lost";
  }
  for (const std::string& id : confirmed.gone) EXPECT_EQ(there.count(id), 0u) << id << " is back";
  for (const RequestId& id : confirmed.answered) {
    if (!world.dispatcher().GetRecord(id.job).ok()) continue;
    const std::string key = RequestRowKey(id.job, id.index);
    v1::OutcomeRecord outcome;
    const absl::StatusOr<std::string> row = store.Get(Family::kOutcomes, key);
    ASSERT_TRUE(row.ok()) << "the answer of request " << id.index << " is lost";
    ASSERT_TRUE(DecodeRecord(key, *row, &outcome).ok());
    EXPECT_EQ(outcome.kind(), v1::OUTCOME_SUCCEEDED);
    const absl::StatusOr<std::string> body = store.Get(Family::kResponses, key);
    ASSERT_TRUE(body.ok());
    EXPECT_EQ(*DecodeBytes(key, *body), JobWorld::Body(id));
  }
  for (const JobNumber job : world.dispatcher().ListJobs()) {
    if (world.Status(job).state() != v1::JOB_STATE_PAUSED) continue;
    EXPECT_TRUE(world.Control(job, JobCommand::Kind::kResume).ok());
  }
  EXPECT_TRUE(world.FinishAll().ok());
  // The end of a cancellation that the crash interrupted may still be on its way.
  world.committer().Shutdown();
  for (const JobNumber job : world.dispatcher().ListJobs()) {
    EXPECT_TRUE(JobHasEnded(world.Status(job).state())) << world.Status(job).ShortDebugString();
    world.ExpectAuditAgrees(job);
    ExpectEachRequestInOneFile(world, job);
  }
}

void CrashEverywhere(const std::function<Store&(bool fresh)>& reopen, int64_t step) {
  int64_t commits = 0;
  {
    StoppingStore counting(reopen(true), INT64_MAX);
    Confirmed confirmed;
    const absl::Status status = RunScenario(counting, &confirmed);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(confirmed.jobs.size(), 3u);
    commits = counting.commits();
    CheckAfterCrash(reopen(false), confirmed);
  }
  ASSERT_GT(commits, 30);
  for (int64_t n = 0; n < commits && !testing::Test::HasFailure(); n += step) {
    SCOPED_TRACE(testing::Message() << "stopped after commit " << n << " of " << commits);
    Confirmed confirmed;
    {
      StoppingStore stopping(reopen(true), n);
      const absl::Status status = RunScenario(stopping, &confirmed);
      // The last commits are the folds of a shutdown, which nobody waits for.
      EXPECT_TRUE(!status.ok() || n > commits - 10) << status;
    }
    CheckAfterCrash(reopen(false), confirmed);
  }
}

}  // namespace nightshift
