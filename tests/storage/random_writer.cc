#include "tests/storage/random_writer.h"

#include <stdlib.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/keys.h"

namespace nightshift {
namespace {

constexpr uint64_t kIndexes = 100;
constexpr uint64_t kRowsPerCommitMax = 20;
constexpr uint64_t kValueBytesMax = 3000;
constexpr Family kFamilies[] = {Family::kRequests, Family::kOutcomes, Family::kResponses,
                                Family::kProgress, Family::kAttempts, Family::kEvents};

// The value of write number `id`; its length follows from it too.
std::string ValueOf(uint64_t id) {
  std::string value = absl::StrCat(id, ":");
  Random random(id);
  for (uint64_t length = random.Below(kValueBytesMax); value.size() < length;) {
    value.append(absl::StrCat(random.Next()));
  }
  return value;
}

}  // namespace

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  uint64_t value = 0;
  const char* const text = getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

uint64_t TestSeed() {
  return FromEnvironment("NIGHTSHIFT_SEED", Random::FromSystem().Next() >> 32);
}

absl::Status RandomWriter::Run(Store& store, int commits_max, const std::function<bool()>& heard) {
  for (int i = 0; i < commits_max; ++i) {
    State after = acknowledged_;
    WriteSet writes = Make(after);
    unknown_ = {after};
    const absl::Status status = store.Commit(std::move(writes));
    if (!heard()) return absl::OkStatus();
    RETURN_IF_ERROR(status);
    if (remember_all_) history_.push_back(acknowledged_);
    acknowledged_ = std::move(after);
    unknown_.clear();
    ++commits_;
  }
  return absl::OkStatus();
}

std::string RandomWriter::Check(const Store& store) {
  const absl::StatusOr<State> found = Read(store);
  if (!found.ok()) return found.status().ToString();
  unknown_.push_back(acknowledged_);
  if (std::find(unknown_.begin(), unknown_.end(), *found) == unknown_.end()) {
    return absl::StrCat("writer from job ", first_job_, ": ", found->size(), " rows, ",
                        acknowledged_.size(), " were acknowledged, and they are not the same");
  }
  acknowledged_ = *found;
  unknown_.clear();
  // The removal of a job may be what did not happen.
  if (!acknowledged_.empty()) {
    job_ = *ParseJobKey(absl::string_view(acknowledged_.begin()->first.second).substr(0, 8));
  }
  return "";
}

absl::StatusOr<int> RandomWriter::CommitsMissing(const Store& store) const {
  ASSIGN_OR_RETURN(const State found, Read(store));
  if (found == acknowledged_) return 0;
  if (std::find(unknown_.begin(), unknown_.end(), found) != unknown_.end()) return -1;
  const auto at = std::find(history_.rbegin(), history_.rend(), found);
  if (at != history_.rend()) return static_cast<int>(at - history_.rbegin()) + 1;
  return absl::OutOfRangeError("rows that were never there together");
}

void RandomWriter::Put(Family family, std::string key, State& state, WriteSet& writes) {
  const uint64_t id = ++last_id_;
  writes.Put(family, key, ValueOf(id));
  state[{family, std::move(key)}] = id;
}

// As a job is removed: ranges, whose keys nobody uses again.
void RandomWriter::RemoveJob(State& state, WriteSet& writes) {
  writes.Delete(Family::kJobs, JobKey(job_));
  for (const Family family : kFamilies) {
    writes.DeleteRange(family, JobKey(job_), JobKey(job_ + 1));
  }
  state.clear();
  ++job_;
}

// Some rows, and the job's own row under a condition.
WriteSet RandomWriter::Make(State& state) {
  WriteSet writes;
  if (random_.Chance(0.03)) RemoveJob(state, writes);
  for (uint64_t left = 1 + random_.Below(kRowsPerCommitMax); left > 0; --left) {
    const Family family = kFamilies[random_.Below(std::size(kFamilies))];
    std::string key = RequestRowKey(job_, random_.Below(kIndexes));
    if (random_.Chance(0.8)) {
      Put(family, std::move(key), state, writes);
    } else {
      state.erase({family, key});
      writes.Delete(family, std::move(key));
    }
  }
  std::string key = JobKey(job_);
  const auto old = state.find({Family::kJobs, key});
  if (old == state.end()) {
    writes.ExpectAbsent(Family::kJobs, key);
  } else {
    writes.ExpectValue(Family::kJobs, key, ValueOf(old->second));
  }
  Put(Family::kJobs, std::move(key), state, writes);
  return writes;
}

absl::StatusOr<RandomWriter::State> RandomWriter::Read(const Store& store) const {
  State state;
  for (uint64_t job = first_job_; job <= job_; ++job) {
    for (int i = 0; i < kFamilyCount; ++i) {
      RETURN_IF_ERROR(ReadFamily(store, job, static_cast<Family>(i), state));
    }
  }
  return state;
}

// Each job by itself, as the coordinator does.
absl::Status RandomWriter::ReadFamily(const Store& store, uint64_t job, Family family,
                                      State& state) {
  const auto rows = store.Scan(family, JobKey(job), JobKey(job + 1));
  for (; rows->Valid(); rows->Next()) {
    uint64_t id = 0;
    const absl::string_view value = rows->value();
    if (!absl::SimpleAtoi(value.substr(0, value.find(':')), &id) || value != ValueOf(id)) {
      return absl::OutOfRangeError("a value that nobody wrote");
    }
    state[{family, std::string(rows->key())}] = id;
  }
  return rows->status();
}

}  // namespace nightshift
