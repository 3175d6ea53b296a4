// Jobs in words and as the JSON objects that scripts read.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_JOB_TEXT_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_JOB_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nightshift/v1/jobs.pb.h"
#include "proto/words.h"

namespace nightshift {

// UNSPECIFIED (that is, false) for an unknown word.
bool ParseErrorClass(absl::string_view word, v1::ErrorClass* error_class);
std::string KnownErrorClasses();

// The object of `status --json`.
nlohmann::ordered_json JobJson(const v1::JobStatus& job);
nlohmann::ordered_json WorkerJson(const v1::WorkerStatus& worker);
// `repairs` null: none was asked for.
nlohmann::ordered_json AuditJson(const v1::AuditReply& audit,
                                 const std::vector<v1::JobRepair>* repairs = nullptr);
nlohmann::ordered_json BackupJson(const v1::BackupInfo& backup, const std::string& folder);

// One line, printable whatever is in it.
std::string Dump(const nlohmann::ordered_json& document);

// What a person reads. `now` is the wall clock.
std::string JobText(const v1::JobStatus& job, absl::Time now);
std::string JobTable(const std::vector<v1::JobStatus>& jobs, absl::Time now);
// What a server tells of its load; empty when nothing.
std::string ServerLoadText(const v1::ServerLoad& load);
std::string WorkerTable(const std::vector<v1::WorkerStatus>& workers);
std::string AuditText(const v1::AuditReply& audit);
std::string RepairText(const std::vector<v1::JobRepair>& repairs);
std::string BackupTable(const v1::ListBackupsReply& backups, absl::Time now);

// "$66.80", "$0.0012".
std::string Dollars(double usd);
// "asked for again: 12 truncated, 3 empty"; empty when nothing was.
std::string AskedAgainText(const v1::JobStatus& job);
// "22:04" today, "Mon 22:04" within six days, else "2026-11-30 22:04"; local time.
std::string ClockText(absl::Time t, absl::Time now);
// How many requests have an outcome.
int64_t DoneCount(const v1::Counts& counts);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_JOB_TEXT_H_
