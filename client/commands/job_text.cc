#include "client/commands/job_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/units.h"
#include "client/output/terminal.h"
#include "client/output/text_table.h"

namespace nightshift {
namespace {

// Rates keep two figures where they are small.
std::string Rate(double rate) {
  return rate < 100 ? absl::StrFormat("%.1f", rate) : WithCommas(std::llround(rate));
}

absl::Time FromMillis(int64_t ms) { return absl::FromUnixMillis(ms); }

std::string Percent(const v1::Counts& counts) {
  // Rounded down, so that 100 % is said only when it is true.
  return counts.total() == 0 ? "100%" : absl::StrCat(DoneCount(counts) * 100 / counts.total(), "%");
}

std::string FailuresText(const v1::JobStatus& job) {
  std::vector<std::pair<int64_t, std::string>> classes;
  for (const auto& [number, count] : job.failed_by_class()) {
    classes.emplace_back(
        count,
        absl::StrReplaceAll(ErrorClassWord(static_cast<v1::ErrorClass>(number)), {{"_", " "}}));
  }
  std::sort(classes.rbegin(), classes.rend());
  return absl::StrJoin(classes, "   ", [](std::string* out, const auto& one) {
    absl::StrAppend(out, WithCommas(one.first), " ", one.second);
  });
}

std::string StateText(const v1::JobStatus& job) {
  const std::string reason = PauseReasonWord(job.reason());
  return absl::StrCat(JobStateWord(job.state()),
                      reason.empty() ? "" : absl::StrCat(" (", reason, ")"));
}

std::string FinishText(const v1::JobStatus& job, absl::Time now) {
  const absl::Time low = now + absl::Seconds(job.eta_low_seconds());
  const absl::Time high = now + absl::Seconds(job.eta_high_seconds());
  std::string text = ClockText(low, now);
  if (ClockText(high, now) != text)
    text = absl::StrCat("between ", text, " and ", ClockText(high, now));
  if (job.deadline_at_ms() > 0) {
    const absl::Time deadline = FromMillis(job.deadline_at_ms());
    absl::StrAppend(&text, " (deadline ", ClockText(deadline, now),
                    high <= deadline  ? ": on time)"
                    : low <= deadline ? ": may be late)"
                                      : ": late)");
  }
  return text;
}

}  // namespace

bool ParseErrorClass(absl::string_view word, v1::ErrorClass* error_class) {
  const std::string name = absl::StrReplaceAll(word, {{"-", "_"}, {" ", "_"}});
  return v1::ErrorClass_Parse(absl::StrCat("ERROR_CLASS_", absl::AsciiStrToUpper(name)),
                              error_class) &&
         *error_class != v1::ERROR_CLASS_NONE;
}

std::string KnownErrorClasses() {
  std::vector<std::string> words;
  for (int number = v1::ERROR_CLASS_NONE + 1; number <= v1::ErrorClass_MAX; ++number) {
    if (v1::ErrorClass_IsValid(number))
      words.push_back(ErrorClassWord(static_cast<v1::ErrorClass>(number)));
  }
  return absl::StrJoin(words, ", ");
}

int64_t DoneCount(const v1::Counts& counts) {
  return counts.succeeded() + counts.failed() + counts.cancelled() + counts.expired();
}

std::string Dollars(double usd) {
  return usd != 0 && std::abs(usd) < 0.1 ? absl::StrFormat("$%.4f", usd)
                                         : absl::StrFormat("$%.2f", usd);
}

std::string AskedAgainText(const v1::JobStatus& job) {
  std::vector<std::string> parts;
  if (job.truncated_retries() > 0) {
    parts.push_back(absl::StrCat(WithCommas(job.truncated_retries()), " truncated"));
  }
  if (job.empty_retries() > 0) {
    parts.push_back(absl::StrCat(WithCommas(job.empty_retries()), " empty"));
  }
  return parts.empty() ? "" : absl::StrCat("asked for again: ", absl::StrJoin(parts, ", "));
}

std::string ClockText(absl::Time t, absl::Time now) {
  const absl::TimeZone zone = absl::LocalTimeZone();
  if (absl::ToCivilDay(t, zone) == absl::ToCivilDay(now, zone))
    return absl::FormatTime("%H:%M", t, zone);
  if (t - now < absl::Hours(24 * 6) && now - t < absl::Hours(24 * 6))
    return absl::FormatTime("%a %H:%M", t, zone);
  return absl::FormatTime("%Y-%m-%d %H:%M", t, zone);
}

std::string JobText(const v1::JobStatus& job, absl::Time now) {
  const v1::Counts& counts = job.counts();
  std::string head = job.id();
  if (!job.name().empty()) absl::StrAppend(&head, "  ", Printable(job.name()));
  absl::StrAppend(&head, "  ", StateText(job));
  if (job.finished_at_ms() > 0)
    absl::StrAppend(&head, "  ended ", ClockText(FromMillis(job.finished_at_ms()), now));
  else if (job.started_at_ms() > 0)
    absl::StrAppend(&head, "  started ", ClockText(FromMillis(job.started_at_ms()), now));
  else
    absl::StrAppend(&head, "  created ", ClockText(FromMillis(job.created_at_ms()), now));
  std::string out = head + "\n";
  const auto line = [&](absl::string_view label, absl::string_view text) {
    absl::StrAppend(&out, "  ", absl::StrFormat("%-9s", label), " ", text, "\n");
  };
  std::string done =
      absl::StrCat(WithCommas(DoneCount(counts)), " of ", WithCommas(counts.total()), " (",
                   Percent(counts), ")   failed ", WithCommas(counts.failed()));
  if (counts.cancelled() > 0)
    absl::StrAppend(&done, "   cancelled ", WithCommas(counts.cancelled()));
  if (counts.expired() > 0) absl::StrAppend(&done, "   expired ", WithCommas(counts.expired()));
  if (counts.retrying() > 0) absl::StrAppend(&done, "   retrying ", WithCommas(counts.retrying()));
  if (counts.in_flight() > 0)
    absl::StrAppend(&done, "   in flight ", WithCommas(counts.in_flight()));
  line("done", done);
  if (!job.state_detail().empty()) line("why", job.state_detail());
  if (!job.waiting_for().empty()) line("waiting", job.waiting_for());
  if (!job.at_risk().empty()) line("at risk", job.at_risk());
  if (job.eta_high_seconds() >= 0 && job.finished_at_ms() == 0 && job.eta_low_seconds() >= 0)
    line("finish", FinishText(job, now));
  if (job.finished_at_ms() == 0 && job.requests_per_second() > 0) {
    line("rate", absl::StrCat(Rate(job.requests_per_second()), " requests/s, ",
                              ShortCount(job.tokens_per_second()), " tokens/s"));
  }
  line("tokens", absl::StrCat(WithCommas(job.prompt_tokens()), " in, ",
                              WithCommas(job.completion_tokens()), " out"));
  line("cost", job.cost_known() ? absl::StrCat(Dollars(job.cost_usd()),
                                               job.finished_at_ms() == 0 ? " so far" : "")
                                : "unknown (no price set)");
  if (const std::string again = AskedAgainText(job); !again.empty()) line("answers", again);
  const std::string failures = FailuresText(job);
  if (!failures.empty()) line("failing", failures);
  return out;
}

std::string JobTable(const std::vector<v1::JobStatus>& jobs, absl::Time now) {
  if (jobs.empty()) return "No jobs.\n";
  TextTable table({{"JOB"},
                   {"NAME", Align::kLeft, 28},
                   {"STATE"},
                   {"DONE", Align::kRight},
                   {"FAILED", Align::kRight},
                   {"CREATED"}});
  for (const v1::JobStatus& job : jobs) {
    table.AddRow(
        {job.id(), job.name(), StateText(job),
         absl::StrCat(WithCommas(DoneCount(job.counts())), "/", WithCommas(job.counts().total())),
         WithCommas(job.counts().failed()), ClockText(FromMillis(job.created_at_ms()), now)});
  }
  return table.Render(0, LocaleIsUtf8());
}

std::string ServerLoadText(const v1::ServerLoad& load) {
  std::vector<std::string> parts;
  const auto percent = [](double share) { return absl::StrFormat("%.0f%%", 100 * share); };
  if (load.has_running()) {
    parts.push_back(absl::StrCat(
        WithCommas(std::llround(load.running())),
        load.has_slots() ? absl::StrCat(" of ", WithCommas(std::llround(load.slots())), " slots")
                         : "",
        " running"));
  }
  if (load.has_waiting())
    parts.push_back(absl::StrCat(WithCommas(std::llround(load.waiting())), " waiting"));
  if (load.has_cache_used())
    parts.push_back(absl::StrCat("cache ", percent(load.cache_used()), " full"));
  if (load.has_cache_hits())
    parts.push_back(absl::StrCat(percent(load.cache_hits()), " of prompts cached"));
  if (load.has_tokens_per_second())
    parts.push_back(absl::StrCat(ShortCount(load.tokens_per_second()), " tok/s"));
  if (load.has_gpu_used()) parts.push_back(absl::StrCat("GPU ", percent(load.gpu_used())));
  if (load.has_gpu_memory_used())
    parts.push_back(absl::StrCat("GPU memory ", percent(load.gpu_memory_used())));
  if (load.has_power_watts()) parts.push_back(absl::StrFormat("%.0f W", load.power_watts()));
  return absl::StrJoin(parts, ", ");
}

std::string WorkerTable(const std::vector<v1::WorkerStatus>& workers) {
  if (workers.empty())
    return "No worker is connected. Start one: nightshift worker --backend URL\n";
  std::string out;
  for (const v1::WorkerStatus& worker : workers) {
    absl::StrAppend(&out, worker.name(), "  ", worker.state());
    if (worker.last_seen_seconds() >= 2) {
      absl::StrAppend(&out, "  last seen ",
                      HumanDuration(absl::Seconds(worker.last_seen_seconds())), " ago");
    }
    absl::StrAppend(&out, "  holds ", WithCommas(worker.leased()), "\n");
    for (const v1::WorkerBackendStatus& backend : worker.backends()) {
      absl::StrAppend(
          &out, absl::StrFormat(
                    "  %-24s %-9s %d/%d in flight, %d buffered, %s req/s, %s tok/s", backend.name(),
                    backend.state(), backend.in_flight(), backend.limit(), backend.buffered(),
                    Rate(backend.requests_per_second()), ShortCount(backend.tokens_per_second())));
      const std::string& why =
          backend.waiting_for().empty() ? backend.detail() : backend.waiting_for();
      absl::StrAppend(&out, why.empty() ? "" : absl::StrCat("  ", why), "\n");
      if (const std::string load = ServerLoadText(backend.load()); !load.empty())
        absl::StrAppend(&out, "    server ", load, "\n");
      if (!backend.explain().empty()) absl::StrAppend(&out, "    limit ", backend.explain(), "\n");
    }
  }
  return out;
}

std::string AuditText(const v1::AuditReply& audit) {
  std::string out;
  for (const v1::JobAudit& job : audit.jobs()) {
    const v1::Counts& counts = job.counts();
    absl::StrAppend(&out, job.id(), job.agrees() ? "  agrees" : "  DISAGREES", "  ",
                    WithCommas(counts.total()), " requests: ", WithCommas(counts.succeeded()),
                    " succeeded, ", WithCommas(counts.failed()), " failed, ",
                    WithCommas(counts.cancelled()), " cancelled, ", WithCommas(counts.expired()),
                    " expired, ", WithCommas(counts.total() - DoneCount(counts)), " unfinished\n");
    for (const std::string& finding : job.findings()) absl::StrAppend(&out, "  ", finding, "\n");
  }
  absl::StrAppend(&out, audit.agrees() ? "Everything agrees.\n"
                                       : "Something disagrees: keep a copy of the data folder "
                                         "before anything else runs on it.\n");
  return out;
}

std::string RepairText(const std::vector<v1::JobRepair>& repairs) {
  std::string out;
  for (const v1::JobRepair& repair : repairs) {
    for (const std::string& done : repair.done()) {
      absl::StrAppend(&out, repair.id(), "  repaired  ", done, "\n");
    }
    for (const std::string& left : repair.left()) {
      absl::StrAppend(&out, repair.id(), "  NOT REPAIRED  ", left, "\n");
    }
  }
  return out;
}

std::string BackupTable(const v1::ListBackupsReply& backups, absl::Time now) {
  if (backups.backups().empty()) return absl::StrCat("No backups in ", backups.folder(), ".\n");
  TextTable table({{"BACKUP", Align::kRight},
                   {"MADE"},
                   {"SIZE", Align::kRight},
                   {"JOBS", Align::kRight},
                   {"UNFINISHED", Align::kRight},
                   {"STORE", Align::kLeft, 8}});
  for (const v1::BackupInfo& backup : backups.backups()) {
    if (backup.damaged()) {
      table.AddRow({absl::StrCat(backup.number()), "DAMAGED"});
      continue;
    }
    table.AddRow({absl::StrCat(backup.number()), ClockText(FromMillis(backup.created_at_ms()), now),
                  HumanSize(backup.bytes()), WithCommas(backup.jobs()),
                  WithCommas(backup.unfinished_jobs()), backup.store()});
  }
  return table.Render(0, LocaleIsUtf8());
}

}  // namespace nightshift
