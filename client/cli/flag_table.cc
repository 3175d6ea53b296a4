#include "client/cli/flag_table.h"

#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/endpoint.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/cli/command_set.h"

namespace nightshift {
namespace {

constexpr int64_t kNoMinimum = INT64_MIN;
constexpr CommandSet kJob = kRun | kSubmit;
constexpr CommandSet kFollow = kWatch | kSubmit;
constexpr CommandSet kBackends = kRun | kWorker;

std::vector<FlagSpec>& Table() {
  using enum FlagType;
  static auto* const flags = new std::vector<FlagSpec>{
      // Where a job's answers go.
      {"output", 'o', kText, "FILE", "",
       "results file (default: the input's name + .results.jsonl, here)", kJob, kNoMinimum},
      {"output", 'o', kText, "FILE", "-", "file to write; - is standard output", kResults | kErrors,
       kNoMinimum},
      {"errors", 0, kText, "FILE", "",
       "errors file (default: the input's name + .errors.jsonl, here); not written when there is "
       "nothing to say",
       kJob, kNoMinimum},
      {"force", 0, kSwitch, "", "", "overwrite files that are not this job's",
       kJob | kResults | kErrors, kNoMinimum},
      // Who answers.
      {"backend", 0, kList, "SPEC", "",
       "a base URL, KIND=URL, cerebras, sim, or a name from the config file; may be repeated",
       kBackends, kNoMinimum},
      {"wait-for-backend", 0, kDuration, "DURATION", "",
       "wait so long for a backend that is not there yet or is loading its model", kRun,
       kNoMinimum},
      {"concurrency", 0, kText, "auto|N", "auto", "calls in flight per backend", kBackends,
       kNoMinimum},
      {"rate-limit", 0, kList, "LIMIT", "",
       "tokens/minute=1000000: requests or tokens per second, minute, hour or day that a backend "
       "may be called with, beside what it tells itself; may be repeated",
       kBackends, kNoMinimum},
      // What is asked.
      {"model", 'm', kText, "NAME", "", "model of the requests that name none", kJob, kNoMinimum},
      {"endpoint", 0, kText, "PATH", "",
       "endpoint of plain prompts, e.g. /v1/completions (default: /v1/chat/completions)", kJob,
       kNoMinimum},
      {"max-tokens", 0, kInt, "N", "", "max_tokens of the requests that set none", kJob, 1},
      {"system", 0, kText, "TEXT|@FILE", "", "system message before plain prompts", kJob,
       kNoMinimum},
      {"template", 0, kText, "TEXT|@FILE", "", "prompt of a CSV row: \"Write about {{topic}}\"",
       kJob, kNoMinimum},
      {"stream", 0, kSwitch, "", "",
       "call with streaming, to measure the time to the first token; the recorded answer is whole",
       kJob, kNoMinimum},
      {"on-truncated", 0, kChoice, "keep|retry|fail", "keep",
       "an answer that is cut off at its token limit: keep it, ask once more with a higher limit, "
       "or count it as failed",
       kJob, kNoMinimum},
      {"on-empty", 0, kChoice, "keep|retry|fail", "keep",
       "an answer without text: keep it, ask up to twice more, or count it as failed", kJob,
       kNoMinimum},
      // Which lines.
      {"limit", 0, kInt, "N", "", "only the first N requests", kJob, 1},
      {"skip-bad-lines", 0, kSwitch, "", "", "run the good lines, record the bad ones as failed",
       kJob, kNoMinimum},
      {"max-line-bytes", 0, kSize, "SIZE", "16MiB", "refuse longer lines", kJob, kNoMinimum},
      {"dry-run", 0, kSwitch, "", "",
       "check, count, estimate tokens and cost; call and store nothing", kJob, kNoMinimum},
      // Which of several backends.
      {"rollout", 0, kList, "BACKEND=P%", "",
       "new=10%: this share of the requests, told by their custom_id, goes to that backend first; "
       "what it fails at goes to the others; may be repeated",
       kJob, kNoMinimum},
      {"backend-weight", 0, kList, "BACKEND=N", "",
       "share the requests out by weight (big=3, small=1); may be repeated", kJob, kNoMinimum},
      {"fallback", 0, kList, "A,B", "",
       "ask these backends in this order: the next when one is not there or has failed at a "
       "request; one that refuses the request itself ends the matter",
       kJob, kNoMinimum},
      // How it runs.
      {"name", 'n', kText, "TEXT", "", "name of the job, for people", kJob, kNoMinimum},
      {"priority", 0, kInt, "N", "0", "higher first", kJob, kNoMinimum},
      {"weight", 0, kInt, "N", "1", "share of the backends beside jobs of the same priority", kJob,
       1},
      {"speculation", 0, kChoice, "auto|on|off", "auto",
       "call a request that takes much longer than others a second time, when nothing else is left "
       "to do; auto: where calls are not paid by the token",
       kJob, kNoMinimum},
      {"deadline", 0, kDuration, "DURATION", "",
       "completion window: what is not answered by then expires", kJob, 1},
      {"max-attempts", 0, kInt, "N", "5", "tries per request", kJob, 1},
      {"request-timeout", 0, kDuration, "DURATION", "",
       "one call, from its start to the last byte (default: the backend's own, 10m)", kJob, 1},
      {"budget-usd", 0, kNumber, "USD", "", "stop taking new work when so much is spent",
       kJob | kResume, 0},
      {"budget-tokens", 0, kInt, "N", "", "stop taking new work when so many tokens are used",
       kJob | kResume, 1},
      {"stop-on-error-rate", 0, kNumber, "RATE", "",
       "stop when this share of the answers are failures: 0.2 is a fifth", kJob, 0},
      {"label", 0, kList, "KEY=VALUE", "", "label of the job; may be repeated", kJob, kNoMinimum},
      // Following.
      {"wait", 0, kSwitch, "", "",
       "follow the job to its end, then write the files that -o and --errors name", kSubmit,
       kNoMinimum},
      {"timeout", 0, kDuration, "DURATION", "", "give up following after so long (the job goes on)",
       kFollow, kNoMinimum},
      {"reconnect", 0, kDuration, "DURATION", "5m",
       "how long to try to reach a coordinator that is gone", kFollow, kNoMinimum},
      {"follow", 'f', kSwitch, "", "", "go on until the job has ended, lines as they come",
       kResults | kErrors, kNoMinimum},
      {"first", 0, kSwitch, "", "", "only the first line", kResults | kErrors, kNoMinimum},
      {"class", 0, kList, "CLASS", "", "only failures of this error class; may be repeated",
       kErrors | kRetry, kNoMinimum},
      {"yes", 'y', kSwitch, "", "", "do not ask", kCancel | kDelete, kNoMinimum},
      {"repair", 0, kSwitch, "", "", "count anew first, where counters disagree", kAudit,
       kNoMinimum},
      {"backup-dir", 0, kText, "DIR", "", "where backups are (default: --data-dir + -backups)",
       kBackup | kCoordinator, kNoMinimum},
      {"keep", 0, kInt, "N", "",
       "create: then remove all but the newest N backups (default: keep all)", kBackup, 1},
      // Servers.
      {"grpc", 0, kText, "ADDR", "127.0.0.1:7440", "listen here for workers and clients",
       kCoordinator, kNoMinimum},
      {"http", 0, kText, "ADDR", "127.0.0.1:7480",
       "serve the Batch API, /metrics, /healthz and /readyz here", kCoordinator, kNoMinimum},
      {"http", 0, kText, "ADDR", "127.0.0.1:7481", "answer /healthz, /readyz and /metrics here",
       kWorker, kNoMinimum},
      {"tenant-jobs", 0, kInt, "N", "", "jobs of one tenant that have not ended, at most",
       kCoordinator, 1},
      {"tenant-bytes", 0, kSize, "SIZE", "", "bytes of one tenant in uploaded files, at most",
       kCoordinator, kNoMinimum},
      {"tenant-rate", 0, kNumber, "N", "", "calls of one tenant per second, at most", kCoordinator,
       0},
      {"role", 0, kChoice, "read|submit|worker|admin", "submit", "what the token is for", kToken,
       kNoMinimum},
      {"tenant", 0, kText, "NAME|*", "", "whose it is; * sees all", kToken, kNoMinimum},
      {"name", 0, kText, "TEXT", "", "name of the token, for people", kToken, kNoMinimum},
      {"lease-ttl", 0, kDuration, "DURATION", "30s",
       "a worker silent for so long loses its requests to the others", kCoordinator, kNoMinimum},
      {"tls-client-ca", 0, kText, "FILE", "",
       "certificates (PEM) that a worker's must be signed by: without one it is refused",
       kCoordinator, kNoMinimum},
      {"insecure", 0, kSwitch, "", "",
       "allow an address other than loopback although nothing is encrypted", kCoordinator | kWorker,
       kNoMinimum},
      {"name", 0, kText, "NAME", "", "name of the worker (default: HOST-PID)", kWorker, kNoMinimum},
      {"spool-dir", 0, kText, "DIR|none", "",
       "where answers outlive this worker until they are recorded (default: spool in --data-dir)",
       kWorker, kNoMinimum},
      {"drain-timeout", 0, kDuration, "DURATION", "30s",
       "how long a stop waits for the calls in flight", kWorker, kNoMinimum},
      {"exit-when-idle", 0, kDuration, "DURATION", "", "end after so long without work", kWorker,
       kNoMinimum},
      // Shared.
      {"data-dir", 0, kText, "DIR", "./nightshift-data", "where jobs and answers are kept",
       kEveryCommand, kNoMinimum},
      {"coordinator", 0, kText, "HOST:PORT", "127.0.0.1:7440", "the coordinator to talk to",
       kEveryCommand, kNoMinimum},
      {"token-file", 0, kText, "FILE", "",
       "file with the token that clients and workers show; for the coordinator, with those it "
       "takes",
       kEveryCommand, kNoMinimum},
      {"tls-ca", 0, kText, "FILE|system", "",
       "encrypt, and take the coordinator for who it says when its certificate is signed by one of "
       "these (PEM); system: by one that this machine trusts",
       kEveryCommand, kNoMinimum},
      {"tls-cert", 0, kText, "FILE", "",
       "own certificate (PEM, with its chain): what a coordinator shows, or a worker to it",
       kEveryCommand, kNoMinimum},
      {"tls-key", 0, kText, "FILE", "", "key of --tls-cert (PEM, without a password)",
       kEveryCommand, kNoMinimum},
      {"config", 0, kText, "FILE", "", "configuration file (YAML)", kEveryCommand, kNoMinimum},
      {"json", 0, kSwitch, "", "", "machine-readable output on standard output, no progress",
       kEveryCommand, kNoMinimum},
      {"quiet", 'q', kSwitch, "", "", "nothing on standard error but errors", kEveryCommand,
       kNoMinimum},
      {"progress", 0, kChoice, "auto|plain|tty|json|none", "auto", "how progress is shown",
       kEveryCommand, kNoMinimum},
      {"progress-interval", 0, kDuration, "DURATION", "10s", "time between plain progress lines",
       kEveryCommand, kNoMinimum},
      {"color", 0, kChoice, "auto|always|never", "auto", "colour on standard error and in tables",
       kEveryCommand, kNoMinimum},
      {"log-level", 0, kChoice, "debug|info|warning|error|off", "warning",
       "log lines on standard error", kEveryCommand, kNoMinimum},
      {"help", 'h', kSwitch, "", "", "show help", kEveryCommand, kNoMinimum},
  };
  return *flags;
}

bool Is(const FlagSpec& flag, const char* name) { return strcmp(flag.name, name) == 0; }

}  // namespace

const std::vector<FlagSpec>& AllFlags() { return Table(); }

void RegisterFlags(const std::vector<FlagSpec>& flags) {
  Table().insert(Table().end(), flags.begin(), flags.end());
}

const CommandSpec* FindCommand(absl::string_view name) {
  for (const CommandSpec& command : AllCommands()) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

const FlagSpec* FindFlag(absl::string_view name, const CommandSpec* command) {
  for (const FlagSpec& flag : AllFlags()) {
    if (name == flag.name && (command == nullptr || (flag.commands & command->bit) != 0))
      return &flag;
  }
  return nullptr;
}

bool IsShared(const FlagSpec& flag) { return flag.commands == kEveryCommand; }

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat("NIGHTSHIFT_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})));
}

absl::Status CheckFlagValue(const FlagSpec& flag, absl::string_view text) {
  const auto refuse = [&](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" ", words...));
  };
  switch (flag.type) {
    case FlagType::kSwitch:
      if (text != "true" && text != "false") return refuse("is neither true nor false");
      return absl::OkStatus();
    case FlagType::kInt: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(text, &number)) return refuse("is not a whole number");
      if (number < flag.minimum) return refuse("is too small; at least ", flag.minimum);
      if ((Is(flag, "priority") || Is(flag, "weight") || Is(flag, "max-attempts")) &&
          number != static_cast<int32_t>(number))
        return refuse("is out of range");
      return absl::OkStatus();
    }
    case FlagType::kNumber: {
      double number = 0;
      if (!absl::SimpleAtod(text, &number) || !std::isfinite(number))
        return refuse("is not a number");
      if (number < static_cast<double>(flag.minimum))
        return refuse("is too small; at least ", flag.minimum);
      // Zero would mean "not set" further on, the opposite of what it says.
      if ((Is(flag, "budget-usd") || Is(flag, "stop-on-error-rate")) && number == 0)
        return refuse("must be more than 0");
      if (Is(flag, "stop-on-error-rate") && number > 1)
        return refuse("is more than 1; 0.2 is a fifth of the answers");
      return absl::OkStatus();
    }
    case FlagType::kDuration: {
      ASSIGN_OR_RETURN(const absl::Duration span, ParseDuration(text));
      if (flag.minimum != kNoMinimum && span < absl::Milliseconds(flag.minimum))
        return refuse("is too short; at least ", flag.minimum, "ms");
      return absl::OkStatus();
    }
    case FlagType::kSize:
      return ParseSize(text).status();
    case FlagType::kChoice: {
      const std::vector<absl::string_view> choices = absl::StrSplit(flag.placeholder, '|');
      for (const absl::string_view choice : choices) {
        if (text == choice) return absl::OkStatus();
      }
      return refuse("is none of ", absl::StrJoin(choices, ", "));
    }
    case FlagType::kText:
      // A variable that is not set, in most cases; taken at its word it would be the folder "/".
      if (text.empty() && !Is(flag, "name") && !Is(flag, "system"))
        return refuse("is empty; leave the option out for its default");
      if ((Is(flag, "name") || Is(flag, "model")) && !IsValidUtf8(text))
        return absl::InvalidArgumentError("is not UTF-8 text");
      if (Is(flag, "concurrency") && text != "auto") {
        int number = 0;
        if (!absl::SimpleAtoi(text, &number) || number < 1)
          return refuse("is neither auto nor a number from 1");
      }
      if (Is(flag, "endpoint") && !EndpointFromPath(text).has_value())
        return refuse("is no known endpoint: ", KnownEndpointPaths());
      return absl::OkStatus();
    case FlagType::kList:
      if (Is(flag, "label") && !IsValidUtf8(text))
        return absl::InvalidArgumentError("is not UTF-8 text");
      if (Is(flag, "label") &&
          (text.empty() || text[0] == '=' || text.find('=') == absl::string_view::npos))
        return refuse("is not KEY=VALUE");
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace nightshift
