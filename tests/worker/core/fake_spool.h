// A spool in memory that outlives the runners of a test, as a folder outlives processes.
#ifndef NIGHTSHIFT_TESTS_WORKER_CORE_FAKE_SPOOL_H_
#define NIGHTSHIFT_TESTS_WORKER_CORE_FAKE_SPOOL_H_

#include <map>
#include <string>
#include <vector>

#include "worker/core/spool_port.h"

namespace nightshift {

class FakeSpool : public SpoolPort {
 public:
  std::string LastStore() const override { return kept.empty() ? "" : kept.rbegin()->second.store; }
  std::vector<KeptResult> Use(const std::string& new_store) override {
    store = new_store;
    std::vector<KeptResult> found;
    for (const auto& [number, entry] : kept) {
      if (entry.store == store) found.push_back({number, entry.result});
    }
    return found;
  }
  uint64_t Keep(const v1::AttemptResult& result) override {
    kept[++last] = {store, result};
    return last;
  }
  void Forget(uint64_t number) override { kept.erase(number); }
  bool Blocked() const override { return blocked; }
  std::string WaitingFor() const override { return blocked ? "room on its disk" : ""; }

  // The indexes of what is kept for a store.
  std::vector<uint64_t> Indexes(const std::string& of) const {
    std::vector<uint64_t> indexes;
    for (const auto& [number, entry] : kept) {
      if (entry.store == of) indexes.push_back(entry.result.key().index());
    }
    return indexes;
  }

  struct Entry {
    std::string store;
    v1::AttemptResult result;
  };
  std::string store;
  std::map<uint64_t, Entry> kept;
  uint64_t last = 0;
  bool blocked = false;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_CORE_FAKE_SPOOL_H_
