#include "coordinator/core/job_table.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/core/job_id.h"
#include "coordinator/core/retry_policy.h"
#include "coordinator/core/tenant.h"

namespace nightshift {

Caution Job::CautionOf(const RequestAttempts& failed) const {
  const int32_t wanted = record.options().max_attempts();
  const int32_t attempts_max = wanted > 0 ? wanted : kMaxAttemptsDefault;
  return CautionFor(failed.lost_workers,
                    failed.broke ? attempts_max - failed.charged : kAttemptsPlenty);
}

Job* JobTable::Add(std::unique_ptr<Job> job) {
  Job* added = job.get();
  const bool new_id = by_id_.try_emplace(added->record.id(), added->number).second;
  NIGHTSHIFT_CHECK(new_id, absl::StrCat("there are two jobs with the id ", added->record.id()));
  const bool new_number = jobs_.try_emplace(added->number, std::move(job)).second;
  NIGHTSHIFT_CHECK(new_number, absl::StrCat("there are two jobs with number ", added->number));
  if (!added->record.idempotency_token().empty()) {
    by_token_.try_emplace(added->record.idempotency_token(), added->number);
  }
  UpdateActive(*added);
  return added;
}

void JobTable::Erase(JobNumber number) {
  const auto it = jobs_.find(number);
  if (it == jobs_.end()) return;
  by_id_.erase(it->second->record.id());
  const auto token = by_token_.find(it->second->record.idempotency_token());
  if (token != by_token_.end() && token->second == number) by_token_.erase(token);
  active_.erase(number);
  jobs_.erase(it);
}

Job* JobTable::Find(JobNumber number) {
  const auto it = jobs_.find(number);
  return it == jobs_.end() ? nullptr : it->second.get();
}

const Job* JobTable::Find(JobNumber number) const {
  const auto it = jobs_.find(number);
  return it == jobs_.end() ? nullptr : it->second.get();
}

absl::StatusOr<JobNumber> JobTable::FindId(absl::string_view id_or_prefix,
                                           const absl::string_view* tenant) const {
  const std::string wanted(id_or_prefix.data(), id_or_prefix.size());
  // From there on the next job that the caller may know of.
  const auto seen = [&](auto from) {
    while (tenant != nullptr && from != by_id_.end() &&
           TenantOf(Find(from->second)->record) != *tenant) {
      ++from;
    }
    return from;
  };
  auto it = seen(by_id_.lower_bound(wanted));
  if (it != by_id_.end() && it->first == wanted) return it->second;
  if (!absl::StartsWith(id_or_prefix, kJobIdPrefix) ||
      id_or_prefix.size() < kJobIdPrefix.size() + kJobIdCharsMin) {
    return absl::NotFoundError(absl::StrCat(
        "there is no job \"", id_or_prefix, "\": give its id, or \"", kJobIdPrefix,
        "\" and at least the next ", kJobIdCharsMin, " characters; nightshift jobs lists them"));
  }
  if (it == by_id_.end() || !absl::StartsWith(it->first, id_or_prefix)) {
    return absl::NotFoundError(
        absl::StrCat("there is no job \"", id_or_prefix, "\"; nightshift jobs lists them"));
  }
  const auto first = it;
  it = seen(std::next(it));
  if (it != by_id_.end() && absl::StartsWith(it->first, id_or_prefix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", id_or_prefix, "\" begins more than one id, ", first->first, " and ",
                     it->first, " among them: give more characters"));
  }
  return first->second;
}

std::optional<JobNumber> JobTable::FindToken(absl::string_view token) const {
  const auto it = by_token_.find(token);
  if (token.empty() || it == by_token_.end()) return std::nullopt;
  return it->second;
}

void JobTable::UpdateActive(const Job& job) {
  if (job.ended()) {
    active_.erase(job.number);
  } else {
    active_.insert(job.number);
  }
}

}  // namespace nightshift
