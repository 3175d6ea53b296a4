#include "tests/sim/witness.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/poison.h"
#include "coordinator/core/retry_policy.h"
#include "storage/keys.h"
#include "storage/record.h"
#include "tests/sim/sim_job.h"

namespace nightshift::sim {
namespace {

using google::protobuf::util::MessageDifferencer;

template <typename Record>
std::optional<Record> Decode(const std::string& key, const std::string& value) {
  Record record;
  if (!DecodeRecord(key, value, &record).ok()) return std::nullopt;
  return record;
}

int32_t AttemptsMax(const v1::JobRecord& job) {
  return job.options().max_attempts() > 0 ? job.options().max_attempts() : kMaxAttemptsDefault;
}

// What of a sealed job's row stays the same for ever.
std::string Identity(const v1::JobRecord& record) {
  return absl::StrCat(record.id(), " ", record.total(), " ", record.idempotency_token(), " ",
                      record.created_at_ms());
}

// Whether `to` can be reached from `from` along the edges; a commit may take several at once.
bool Reachable(v1::JobState from, v1::JobState to) {
  std::set<v1::JobState> seen = {from};
  // Long enough for any path without a loop.
  for (size_t i = 0; i < JobStates().size(); ++i) {
    for (const JobEdge& edge : JobEdges()) {
      if (seen.contains(edge.from)) seen.insert(edge.to);
    }
  }
  return seen.contains(to);
}

// What the store remembers of a request's failed attempts.
v1::AttemptRecord AttemptsIn(const Store& rows, const std::string& key) {
  const absl::StatusOr<std::string> value = rows.Get(Family::kAttempts, key);
  const auto attempts = value.ok() ? Decode<v1::AttemptRecord>(key, *value) : std::nullopt;
  return attempts.value_or(v1::AttemptRecord());
}

int32_t ChargedIn(const Store& rows, const std::string& key) {
  return AttemptsIn(rows, key).charged();
}

std::string StateWord(v1::JobState state) { return std::string(JobStateInfo(state).word); }

}  // namespace

std::string Witness::Name(const Request& id) {
  return absl::StrCat("request ", id.second, " of job ", id.first);
}

Witness::Before Witness::ReadJob(const Store& rows, JobNumber job) {
  Before before;
  const std::string key = JobKey(job);
  const absl::StatusOr<std::string> value = rows.Get(Family::kJobs, key);
  if (!value.ok()) return before;
  before.present = DecodeRecord(key, *value, &before.record).ok();
  return before;
}

// One commit as it is looked at.
struct Witness::Commit {
  std::map<JobNumber, v1::JobRecord> written;  // job rows
  std::set<JobNumber> erased;
  std::map<std::string, const std::string*> bodies;  // of answers, by key
};

void Witness::BeforeCommit(const Store& rows, const WriteSet& writes, MonotonicTime now) {
  using Kind = WriteSet::Write::Kind;
  after_commit_.clear();
  Commit commit;
  std::map<JobNumber, Before> jobs;
  const auto job_before = [&](JobNumber job) -> const Before& {
    const auto found = jobs.find(job);
    return found != jobs.end() ? found->second
                               : jobs.emplace(job, ReadJob(rows, job)).first->second;
  };
  for (const WriteSet::Write& write : writes.writes()) {
    if (write.family == Family::kJobs) {
      const JobNumber job = *ParseJobKey(write.key);
      if (write.kind == Kind::kPut) {
        const auto record = Decode<v1::JobRecord>(write.key, write.value);
        if (!record.has_value()) return Violation("a job row that cannot be read is written");
        commit.written[job] = *record;
        commit.erased.erase(job);
      } else {
        commit.written.erase(job);
        commit.erased.insert(job);
      }
    } else if (write.family == Family::kResponses && write.kind == Kind::kPut) {
      commit.bodies[write.key] = &write.value;
    }
  }
  for (const auto& [job, record] : commit.written) JudgeJobRow(job, job_before(job), record, now);
  for (const JobNumber job : commit.erased) {
    const Before& before = job_before(job);
    const v1::JobState state = before.record.state();
    if (before.present && state != v1::JOB_STATE_VALIDATING && !JobHasEnded(state) &&
        OutcomesWith(writes, job) < before.record.total()) {
      Violation(absl::StrCat("job ", job, " is deleted while it is ", StateWord(state)));
    }
    after_commit_.push_back([this, job = job] {
      if (const auto known = jobs_.find(job); known != jobs_.end()) {
        std::erase_if(tokens_, [job](const auto& token) { return token.second == job; });
        jobs_.erase(known);
      }
      outcomes_.erase(outcomes_.lower_bound({job, 0}), outcomes_.lower_bound({job + 1, 0}));
    });
  }
  for (const WriteSet::Write& write : writes.writes()) {
    if (write.family != Family::kOutcomes && write.family != Family::kAttempts) continue;
    if (write.kind == Kind::kDeleteRange) continue;  // of a job that is deleted or run again
    const std::optional<ParsedRequestKey> key = ParseRequestRowKey(write.key);
    const Request id{key->job, key->index};
    if (commit.erased.contains(id.first)) continue;
    const Before& before = job_before(id.first);
    const auto written = commit.written.find(id.first);
    const bool next_run = before.present && written != commit.written.end() &&
                          written->second.run() > before.record.run() && before.record.run() > 0;
    if (write.family == Family::kAttempts) {
      if (write.kind != Kind::kPut) continue;
      JudgeAttempts(rows, id, write.value, before.record);
      continue;
    }
    if (write.kind == Kind::kDelete) {
      if (!next_run) Violation(absl::StrCat("the outcome of ", Name(id), " is removed"));
      after_commit_.push_back([this, id] { outcomes_.erase(id); });
      continue;
    }
    if (!next_run && rows.Get(Family::kOutcomes, write.key).ok()) {
      Violation(absl::StrCat(Name(id), " gets a second outcome"));
    }
    if (before.present && JobHasEnded(before.record.state())) {
      Violation(absl::StrCat(Name(id), " gets an outcome after its job has ended"));
    }
    const auto outcome = Decode<v1::OutcomeRecord>(write.key, write.value);
    if (!outcome.has_value()) return Violation("an outcome that cannot be read is written");
    const auto body = commit.bodies.find(write.key);
    if (before.record.state() != v1::JOB_STATE_VALIDATING) {
      JudgeOutcome(rows, id, *outcome, body == commit.bodies.end() ? nullptr : body->second,
                   before.record);
    }
    after_commit_.push_back([this, id, value = write.value] {
      outcomes_[id] = value;
      ++outcomes_seen_;
    });
  }
}

// How many requests of the job have an outcome once `writes` are in: the last answer may come in
// the very commit that then deletes the job.
int64_t Witness::OutcomesWith(const WriteSet& writes, JobNumber job) const {
  int64_t count =
      std::distance(outcomes_.lower_bound({job, 0}), outcomes_.lower_bound({job + 1, 0}));
  for (const WriteSet::Write& write : writes.writes()) {
    if (write.family == Family::kOutcomes && write.kind == WriteSet::Write::Kind::kPut &&
        ParseRequestRowKey(write.key)->job == job) {
      ++count;
    }
  }
  return count;
}

void Witness::AfterCommit() {
  for (const auto& remember : after_commit_) remember();
  after_commit_.clear();
  ++commits_;
}

void Witness::JudgeJobRow(JobNumber job, const Before& before, const v1::JobRecord& after,
                          MonotonicTime now) {
  if (JobStateInfo(after.state()).runnable) {
    after_commit_.push_back([this, job] { stopped_.erase(job); });
  } else if (after.state() != v1::JOB_STATE_VALIDATING) {
    after_commit_.push_back([this, job, now] { stopped_.emplace(job, now); });
  }
  const std::string name = absl::StrCat("job ", job);
  if (after.state() == v1::JOB_STATE_VALIDATING) {
    if (before.present) Violation(absl::StrCat(name, " begins a second time"));
    return;
  }
  if (!before.present) return Violation(absl::StrCat(name, " was never begun"));
  const v1::JobState state = before.record.state();
  if (state == v1::JOB_STATE_VALIDATING) {
    const std::string& token = after.idempotency_token();
    if (!token.empty() && tokens_.contains(token)) {
      Violation(absl::StrCat(name, " and job ", tokens_[token], " have the same token"));
    }
    after_commit_.push_back([this, job, token, identity = Identity(after)] {
      jobs_[job] = identity;
      if (!token.empty()) tokens_[token] = job;
    });
    return;
  }
  if (Identity(before.record) != Identity(after)) {
    Violation(absl::StrCat(name, " becomes another: ", Identity(after)));
  }
  if (after.run() == before.record.run()) {
    if (JobHasEnded(state) && !MessageDifferencer::Equals(before.record, after)) {
      Violation(absl::StrCat(name, " has ended (", StateWord(state), ") and is changed"));
    }
    if (!Reachable(state, after.state())) {
      Violation(
          absl::StrCat(name, " goes from ", StateWord(state), " to ", StateWord(after.state())));
    }
    if (after.lease_frontier() < before.record.lease_frontier()) {
      Violation(absl::StrCat(name, " takes back its lease frontier"));
    }
  } else if (after.run() != before.record.run() + 1 || !JobHasEnded(state)) {
    Violation(absl::StrCat(name, " goes from run ", before.record.run(), " (", StateWord(state),
                           ") to run ", after.run()));
  } else {
    after_commit_.push_back([this, job] {
      run_began_[job] = commits_ + 1;
      kills_.erase(kills_.lower_bound({job, 0}), kills_.lower_bound({job + 1, 0}));
    });
  }
}

void Witness::JudgeAttempts(const Store& rows, const Request& id, const std::string& value,
                            const v1::JobRecord& job) {
  const std::string key = RequestRowKey(id.first, id.second);
  const auto attempts = Decode<v1::AttemptRecord>(key, value);
  if (!attempts.has_value()) return Violation("an attempts row that cannot be read is written");
  const int32_t before = ChargedIn(rows, key);
  const int32_t now = attempts->charged();
  if (now < before || now > before + 1 || now >= AttemptsMax(job)) {
    Violation(absl::StrCat(Name(id), " is to be tried again after ", now, " charged attempts of ",
                           AttemptsMax(job), "; before it were ", before));
  }
}

void Witness::JudgeOutcome(const Store& rows, const Request& id, const v1::OutcomeRecord& outcome,
                           const std::string* body, const v1::JobRecord& job) {
  if (outcome.error_class() == v1::ERROR_CLASS_WORKER_CRASHED) {
    return JudgeCrashed(rows, id, outcome);
  }
  const std::string key = RequestRowKey(id.first, id.second);
  const int32_t charged = ChargedIn(rows, key);
  if (outcome.attempts() != charged + 1 || outcome.attempts() > AttemptsMax(job)) {
    Violation(absl::StrCat(Name(id), " ends after ", outcome.attempts(), " attempts of ",
                           AttemptsMax(job), ", of which ", charged, " were charged before"));
  }
  if (outcome.kind() != v1::OUTCOME_SUCCEEDED && outcome.kind() != v1::OUTCOME_FAILED) {
    return Violation(absl::StrCat(Name(id), " gets an outcome that is none"));
  }
  if (outcome.kind() != v1::OUTCOME_SUCCEEDED) return;
  const absl::StatusOr<std::string> row = rows.Get(Family::kRequests, key);
  const auto request = row.ok() ? Decode<v1::RequestRecord>(key, *row) : std::nullopt;
  if (!request.has_value()) return Violation(absl::StrCat(Name(id), " is not in the store"));
  if (body == nullptr) return Violation(absl::StrCat(Name(id), " has succeeded without an answer"));
  const auto answer = DecodeBytes(key, *body);
  if (!answer.ok() || std::string(*answer) != AnswerBody(request->body())) {
    Violation(absl::StrCat("the answer of ", Name(id), " is not what its backend said"));
  }
}

void Witness::JudgeCrashed(const Store& rows, const Request& id, const v1::OutcomeRecord& outcome) {
  const v1::AttemptRecord before = AttemptsIn(rows, RequestRowKey(id.first, id.second));
  const int32_t lost = outcome.attempts() - before.charged();
  // The row may still count one that has come back.
  if (outcome.kind() != v1::OUTCOME_FAILED || lost < 3 || lost > before.lost_workers() + 1) {
    Violation(absl::StrCat(Name(id), " is recorded as the death of its workers after ",
                           outcome.attempts(), " attempts, ", before.charged(), " charged and ",
                           before.lost_workers(), " with workers that died"));
  }
}

void Witness::OnPoisoned(const v1::RequestKey& key) {
  const Request id{key.job(), key.index()};
  const int kills = ++kills_[id];
  kills_max_ = std::max(kills_max_, kills);
  // Each run of the coordinator but the first may have missed one.
  if (sees_all_deaths_ && kills > kLostMax + coordinator_runs_ - 1) {
    Violation(absl::StrCat(Name(id), " has killed ", kills, " workers in ", coordinator_runs_,
                           " runs of the coordinator"));
  }
}

void Witness::CheckRows(const Store& rows) {
  for (const auto& [id, value] : outcomes_) {
    const absl::StatusOr<std::string> row =
        rows.Get(Family::kOutcomes, RequestRowKey(id.first, id.second));
    if (!row.ok()) return Violation(absl::StrCat("the outcome of ", Name(id), " is lost"));
    if (*row != value) return Violation(absl::StrCat("the outcome of ", Name(id), " has changed"));
  }
  for (const auto& [job, identity] : jobs_) {
    const Before now = ReadJob(rows, job);
    if (!now.present) return Violation(absl::StrCat("job ", job, " is lost"));
    if (Identity(now.record) != identity) {
      return Violation(absl::StrCat("job ", job, " has become another"));
    }
  }
}

void Witness::CheckNothingElse(const Store& rows, const std::vector<JobNumber>& jobs) {
  const std::set<JobNumber> known(jobs.begin(), jobs.end());
  const auto check = [&](Family family) {
    for (auto row = rows.Scan(family, "", ""); row->Valid(); row->Next()) {
      // Every key of these families begins with the job's number.
      const std::optional<uint64_t> job = ParseJobKey(row->key().substr(0, JobKey(0).size()));
      if (job.has_value() && known.contains(*job)) continue;
      return Violation(absl::StrCat("family ", std::string(FamilyName(family)),
                                    " keeps rows of job ", job.value_or(0), ", which is none"));
    }
  };
  for (const Family family : kJobRowFamilies) check(family);
  check(Family::kJobs);
}

void Witness::OnEpoch(uint64_t epoch) {
  if (epoch <= epoch_) Violation(absl::StrCat("epoch ", epoch, " comes after epoch ", epoch_));
  epoch_ = epoch;
  ++coordinator_runs_;
}

void Witness::OnLeased(const std::string& session, const v1::Lease& lease) {
  for (const v1::LeasedRequest& request : lease.requests()) {
    held_[session][{request.key().job(), request.key().index()}].leased = true;
  }
}

void Witness::OnLost(const std::string& session, const v1::RequestKey& key) {
  held_[session][{key.job(), key.index()}].leased = false;
}

void Witness::OnCallStarted(const std::string& session, const v1::RequestKey& key) {
  ++calls_;
  const Request id{key.job(), key.index()};
  Held& held = held_[session][id];
  if (!held.leased) {
    Violation(absl::StrCat("session ", session, " calls a backend for ", Name(id),
                           ", which is not leased to it"));
  }
  if (++held.calls > 1) {
    Violation(absl::StrCat("session ", session, " calls twice at a time for ", Name(id)));
  }
}

void Witness::OnCallEnded(const std::string& session, const v1::RequestKey& key, bool answered) {
  const Request id{key.job(), key.index()};
  --held_[session][id].calls;
  if (answered && ++answers_[id] == 2) answered_twice_ = Name(id);
}

void Witness::OnLeaseSent(const v1::Lease& lease, MonotonicTime now, absl::Duration patience) {
  for (const v1::LeasedRequest& request : lease.requests()) {
    const auto stopped = stopped_.find(request.key().job());
    if (stopped == stopped_.end() || now - stopped->second <= patience) continue;
    Violation(absl::StrCat("job ", request.key().job(), " has been stopped for ",
                           absl::FormatDuration(now - stopped->second), ", and request ",
                           request.key().index(), " of it goes out"));
  }
}

void Witness::OnResultSent(const std::string& session, const v1::AttemptResult& result) {
  const Request id{result.key().job(), result.key().index()};
  sent_[{session, result.sequence()}] = {id, result.kind(), result.run()};
  if (!held_[session][id].leased) {
    Violation(absl::StrCat("session ", session, " sends a result of ", Name(id),
                           ", which is not leased to it"));
  }
}

void Witness::OnAcknowledged(const std::string& session, const v1::Acknowledge& acknowledge,
                             const Store& rows) {
  for (const uint64_t sequence : acknowledge.sequences()) {
    const auto found = sent_.find({session, sequence});
    if (found == sent_.end()) {
      return Violation(absl::StrCat("result ", sequence, " of session ", session,
                                    " is acknowledged and was never sent"));
    }
    const auto& [id, kind, run] = found->second;
    if (kind == v1::AttemptResult::RETRY) continue;
    const Before job = ReadJob(rows, id.first);
    // Dropped for good, and rightly so: its job has ended, or had until this very commit.
    if (!job.present || !JobStateInfo(job.record.state()).takes_results) continue;
    // So is a rejection from before the job was run again.
    if (kind == v1::AttemptResult::REJECTED && run < job.record.run()) continue;
    const auto began = run_began_.find(id.first);
    if (began != run_began_.end() && began->second == commits_) continue;
    if (!rows.Get(Family::kOutcomes, RequestRowKey(id.first, id.second)).ok()) {
      Violation(
          absl::StrCat("the ", kind == v1::AttemptResult::ANSWERED ? "answer" : "rejection", " of ",
                       Name(id), " in run ", run, " is acknowledged and not in the store; it has ",
                       ChargedIn(rows, RequestRowKey(id.first, id.second)), " charged attempts"));
    }
  }
}

}  // namespace nightshift::sim
