#include "storage/write_set.h"

#include "base/check.h"

namespace nightshift {

absl::string_view FamilyName(Family family) {
  switch (family) {
    case Family::kMeta:
      return "meta";
    case Family::kJobs:
      return "jobs";
    case Family::kRequests:
      return "requests";
    case Family::kOrder:
      return "order";
    case Family::kOutcomes:
      return "outcomes";
    case Family::kResponses:
      return "responses";
    case Family::kProgress:
      return "progress";
    case Family::kAttempts:
      return "attempts";
    case Family::kFiles:
      return "files";
    case Family::kEvents:
      return "events";
  }
  NIGHTSHIFT_CHECK(false, "a family without a name");
}

void WriteSet::Put(Family family, std::string key, std::string value) {
  byte_size_ += key.size() + value.size();
  writes_.push_back({Write::Kind::kPut, family, std::move(key), std::move(value)});
}

void WriteSet::Delete(Family family, std::string key) {
  byte_size_ += key.size();
  writes_.push_back({Write::Kind::kDelete, family, std::move(key), std::string()});
}

void WriteSet::DeleteRange(Family family, std::string begin, std::string end) {
  byte_size_ += begin.size() + end.size();
  writes_.push_back({Write::Kind::kDeleteRange, family, std::move(begin), std::move(end)});
}

void WriteSet::ExpectAbsent(Family family, std::string key) {
  conditions_.push_back({family, std::move(key), false, std::string()});
}

void WriteSet::ExpectValue(Family family, std::string key, std::string value) {
  conditions_.push_back({family, std::move(key), true, std::move(value)});
}

}  // namespace nightshift
