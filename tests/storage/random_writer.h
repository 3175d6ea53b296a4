// Commits random rows as the coordinator does, and remembers what it was told, so that a test can
// say after any misfortune whether the store kept its word.
#ifndef NIGHTSHIFT_TESTS_STORAGE_RANDOM_WRITER_H_
#define NIGHTSHIFT_TESTS_STORAGE_RANDOM_WRITER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "storage/store.h"

namespace nightshift {

// A number from the environment, for tests that are longer when asked.
uint64_t FromEnvironment(const char* name, uint64_t otherwise);
// $NIGHTSHIFT_SEED, or one of the system's.
uint64_t TestSeed();

// Writes the rows of one job after the other, from `first_job` on. Not thread-safe; several may
// write to one store, their jobs far enough apart.
class RandomWriter {
 public:
  RandomWriter(uint64_t first_job, uint64_t seed)
      : first_job_(first_job), job_(first_job), random_(seed) {}

  // Commits until a commit fails, which is returned, until `heard` says after one that its answer
  // reached nobody, or until `commits_max` have been made.
  absl::Status Run(Store& store, int commits_max, const std::function<bool()>& heard);

  // What is wrong, or nothing: the rows must be those that were acknowledged, or those with the one
  // commit more that nobody knows the end of. From then on they are what was acknowledged.
  std::string Check(const Store& store);

  // For one who remembers every state: how many acknowledged commits the rows lack at the end, or
  // -1 when they also have the one that nobody knows the end of; OutOfRange when they are not those
  // of any moment, or the error that reading them met.
  absl::StatusOr<int> CommitsMissing(const Store& store) const;
  void RememberAll() { remember_all_ = true; }

  // From any thread.
  int64_t commits() const { return commits_; }

 private:
  using Row = std::pair<Family, std::string>;
  using State = std::map<Row, uint64_t>;  // to the number of the write, which tells the value

  void Put(Family family, std::string key, State& state, WriteSet& writes);
  void RemoveJob(State& state, WriteSet& writes);
  WriteSet Make(State& state);
  absl::StatusOr<State> Read(const Store& store) const;
  static absl::Status ReadFamily(const Store& store, uint64_t job, Family family, State& state);

  const uint64_t first_job_;
  uint64_t job_;
  Random random_;
  bool remember_all_ = false;
  uint64_t last_id_ = 0;
  std::atomic<int64_t> commits_ = 0;
  State acknowledged_;
  std::vector<State> unknown_;  // at most one: with the commit whose end nobody knows
  std::vector<State> history_;  // before acknowledged_
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_RANDOM_WRITER_H_
