#include "tests/coordinator/core/disk.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/outcome.h"
#include "storage/keys.h"

namespace nightshift {

bool Terminal(v1::JobState state) {
  return state != v1::JOB_STATE_UNSPECIFIED && JobStateInfo(state).terminal;
}

void Disk::Finish(DiskJob* job, uint64_t index) {
  const size_t chunk = index / kChunkRequests;
  const uint64_t offset = index % kChunkRequests;
  if (job->bitmaps.size() <= chunk) job->bitmaps.resize(chunk + 1);
  std::string& bits = job->bitmaps[chunk];
  if (bits.size() <= offset / 8) bits.resize(offset / 8 + 1, '\0');
  EXPECT_EQ(bits[offset / 8] >> (offset % 8) & 1, 0) << "request " << index << " finished twice";
  bits[offset / 8] = static_cast<char>(bits[offset / 8] | (1 << (offset % 8)));
}

void Disk::Write(const ResultDecision& decision) {
  if (decision.kind == ResultDecision::Kind::kRecord) {
    DiskJob& job = jobs.at(decision.id.job);
    EXPECT_FALSE(Terminal(job.record.state()));
    const bool first = job.outcomes.emplace(decision.id.index, decision.outcome).second;
    EXPECT_TRUE(first) << "a second outcome for request " << decision.id.index;
    EXPECT_EQ(decision.delete_attempts_row, job.attempts.count(decision.id.index) == 1);
    job.attempts.erase(decision.id.index);
    Finish(&job, decision.id.index);
    AddToSums(decision.outcome, &job.sums);
  } else if (decision.kind == ResultDecision::Kind::kRetry) {
    DiskJob& job = jobs.at(decision.id.job);
    EXPECT_EQ(job.outcomes.count(decision.id.index), 0u);
    job.attempts[decision.id.index] = decision.attempts;
  }
}

void Disk::Write(const CommitPlan& plan) {
  for (const ResultDecision& decision : plan.decisions) Write(decision);
  for (const ResultDecision& loss : plan.losses) Write(loss);
  for (const JobCommand& command : plan.commands) {
    if (command.kind == JobCommand::Kind::kSeal) {
      DiskJob& job = jobs[command.job];
      for (const uint64_t index : command.invalid) {
        v1::OutcomeRecord outcome;
        outcome.set_kind(v1::OUTCOME_FAILED);
        outcome.set_error_class(v1::ERROR_CLASS_INVALID_REQUEST);
        job.outcomes[index] = outcome;
        Finish(&job, index);
        AddToSums(outcome, &job.sums);
      }
    } else if (command.kind == JobCommand::Kind::kReopen) {
      DiskJob& job = jobs.at(command.job);
      job.bitmaps = command.finished_bitmaps;
      job.sums = command.sums;
      job.attempts.clear();
      for (auto it = job.outcomes.begin(); it != job.outcomes.end();) {
        const bool stays = it->second.kind() == v1::OUTCOME_SUCCEEDED;
        it = stays ? std::next(it) : job.outcomes.erase(it);
      }
    }
  }
  for (const CommitPlan::JobWrite& write : plan.job_writes) {
    if (write.erase) {
      EXPECT_EQ(jobs.erase(write.job), 1u);
      continue;
    }
    DiskJob& job = jobs[write.job];
    if (Terminal(job.record.state())) {
      EXPECT_GT(write.record.run(), job.record.run()) << "a job that had ended has changed";
    } else if (write.record.run() == job.record.run()) {
      EXPECT_GE(write.record.lease_frontier(), job.record.lease_frontier());
    }
    job.record = write.record;
    if (Terminal(job.record.state())) {
      EXPECT_EQ(job.record.final_sums().succeeded(), job.sums.succeeded());
      EXPECT_EQ(job.record.final_sums().failed(), job.sums.failed());
      EXPECT_EQ(job.record.total(), job.sums.succeeded() + job.sums.failed() +
                                        job.record.cancelled() + job.record.expired());
      EXPECT_GT(job.record.finished_at_ms(), 0);
    }
  }
}

std::vector<LoadedJob> Disk::Read() const {
  std::vector<LoadedJob> loaded;
  for (const auto& [number, job] : jobs) {
    LoadedJob& to = loaded.emplace_back();
    to.number = number;
    to.record = job.record;
    to.sums = job.sums;
    if (Terminal(job.record.state())) continue;
    to.finished_bitmaps = job.bitmaps;
    to.attempts.assign(job.attempts.begin(), job.attempts.end());
  }
  return loaded;
}

Committed Commit(Dispatcher& dispatcher, Disk& disk, Clock& clock,
                 const std::vector<ResultEvent>& results, const std::vector<JobCommand>& commands) {
  Committed done;
  done.plan = dispatcher.Prepare(results, commands, &done.statuses, clock.Now(), clock.WallNow());
  EXPECT_EQ(done.plan.decisions.size(), results.size());
  EXPECT_EQ(done.statuses.size(), commands.size());
  disk.Write(done.plan);
  done.outgoing = dispatcher.Apply(done.plan, clock.Now(), clock.WallNow());
  return done;
}

JobCommand Seal(JobNumber job, int64_t total) {
  JobCommand command;
  command.kind = JobCommand::Kind::kSeal;
  command.job = job;
  command.record.set_id(absl::StrCat("job_", absl::Dec(job, absl::kZeroPad12)));
  command.record.set_total(total);
  return command;
}

JobCommand Command(JobCommand::Kind kind, JobNumber job) {
  JobCommand command;
  command.kind = kind;
  command.job = job;
  return command;
}

ResultEvent Result(WorkerNumber worker, RequestId id, v1::AttemptResult::Kind kind) {
  ResultEvent event;
  event.worker = worker;
  event.result.mutable_key()->set_job(id.job);
  event.result.mutable_key()->set_index(id.index);
  event.result.set_kind(kind);
  return event;
}

ResultEvent Answered(WorkerNumber worker, RequestId id) {
  ResultEvent event = Result(worker, id, v1::AttemptResult::ANSWERED);
  event.result.set_http_status(200);
  event.result.mutable_usage()->set_prompt_tokens(10);
  event.result.mutable_usage()->set_completion_tokens(5);
  return event;
}

ResultEvent Failed(WorkerNumber worker, RequestId id, int32_t attempt) {
  ResultEvent event = Result(worker, id, v1::AttemptResult::RETRY);
  event.result.set_attempt(attempt);
  event.result.set_charged(true);
  event.result.set_error_class(v1::ERROR_CLASS_SERVER_ERROR);
  event.result.set_http_status(500);
  return event;
}

v1::Hello HelloOf(const std::string& name, const std::string& session,
                  const std::vector<std::string>& models) {
  v1::Hello hello;
  hello.set_protocol("nightshift.v1");
  hello.set_name(name);
  hello.set_session(session);
  v1::BackendInfo* backend = hello.add_backends();
  backend->set_name("b");
  backend->set_kind("sim");
  for (const std::string& model : models) backend->add_models(model);
  return hello;
}

v1::Report ReportOf(int32_t limit, double rate, const std::vector<std::string>& models) {
  v1::Report report;
  v1::BackendReport* backend = report.add_backends();
  backend->mutable_info()->set_name("b");
  backend->mutable_info()->set_kind("sim");
  for (const std::string& model : models) backend->mutable_info()->add_models(model);
  backend->set_limit(limit);
  backend->set_requests_per_second(rate);
  return report;
}

void Hold(v1::Hello* hello, RequestId id, bool answered) {
  v1::HeldRequest* held = hello->add_held();
  held->mutable_key()->set_job(id.job);
  held->mutable_key()->set_index(id.index);
  held->set_backend("b");
  held->set_answered(answered);
}

}  // namespace nightshift
