#include "client/cli/help.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/exit_code.h"
#include "client/cli/suggest.h"

namespace nightshift {
namespace {

constexpr size_t kWidth = 80;

// `text` in lines of at most kWidth columns, each after the first behind `indent` blanks.
std::string Wrap(absl::string_view text, size_t column, size_t indent) {
  std::string out;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column + word.size() + 1 > kWidth && column > indent) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out;
}

std::string FlagLine(const FlagSpec& flag) {
  constexpr size_t kIndent = 30;
  std::string left = flag.short_name != 0 ? absl::StrFormat("  -%c, ", flag.short_name) : "      ";
  absl::StrAppend(&left, "--", flag.name);
  if (*flag.placeholder != '\0') absl::StrAppend(&left, " ", flag.placeholder);
  std::string help = flag.help;
  if (*flag.default_text != '\0') absl::StrAppend(&help, " (default: ", flag.default_text, ")");
  if (left.size() + 2 > kIndent)
    absl::StrAppend(&left, "\n", std::string(kIndent, ' '));
  else
    left.resize(kIndent, ' ');
  return absl::StrCat(left, Wrap(help, kIndent, kIndent), "\n");
}

std::string Indented(const char* lines) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(lines, '\n'))
    absl::StrAppend(&out, line.empty() ? "" : "  ", line, "\n");
  return out;
}

std::string EnvironmentHelp() {
  std::string out =
      R"(Every option has an environment variable: NIGHTSHIFT_ and the option's name in
capitals. A flag wins over the variable, the variable over the file of --config,
that over ~/.config/nightshift/config.yaml. `nightshift config show` says which
one counts. Lists are separated by commas; switches are true or false.

)";
  std::set<std::string> seen;
  for (const FlagSpec& flag : AllFlags()) {
    if (strcmp(flag.name, "help") == 0 || !seen.insert(flag.name).second) continue;
    absl::StrAppend(&out, "  ", absl::StrFormat("%-32s", EnvironmentName(flag.name)), "--",
                    flag.name, "\n");
  }
  absl::StrAppend(&out, R"(
Others:

  CEREBRAS_API_KEY                key of --backend cerebras
  AZURE_OPENAI_API_KEY            key of azure=URL
  ANTHROPIC_API_KEY               key of anthropic=URL
  OPENAI_API_KEY                  key of other backends, where one is asked for by
                                  `api_key_env: OPENAI_API_KEY` in a config file
  NO_COLOR                        no colour, when set and not empty
  TERM                            dumb: no colour, plain progress
  TMPDIR                          for standard input and very large inputs
  XDG_CONFIG_HOME                 instead of ~/.config

A key comes from a variable or a file, never from the command line, and never
leaves the process that calls the backend.
)");
  return out;
}

std::string FormatsHelp() {
  return R"(Input: one request per line, split at line feeds only. Blank lines, a byte-order
mark, CR before LF and a missing last newline are accepted. .gz and .zst are
read as they are; - is standard input.

  OpenAI batch line    {"custom_id":"a","method":"POST",
                        "url":"/v1/chat/completions","body":{"model":"m",...}}
  short                {"prompt":"..."} or {"messages":[...]}, with optional
                       custom_id (or id), model, and any other body field
  text, *.txt          one prompt per line
  CSV, *.csv           with --template "Write about {{topic}}"; one row per
                       request; the column custom_id is used if it is there

A request without custom_id gets request-<line>. Bodies reach the backend byte
for byte; only a member that an option sets is changed.

Config (--config FILE, YAML): every option is a key, and `backends:` names
backends with kind, url, api_key_env or api_key_file, connect_timeout,
request_timeout, price_prompt_per_million, price_completion_per_million,
rate_limit (tokens/minute=1000000, requests/minute=1000), and model_aliases:
under it what requests call a model, and what this backend calls it. A key file
is read again when it changes.

Results file: JSON Lines in input order, the requests that succeeded:
  {"id":"batch_req_...","custom_id":"a","response":{"status_code":200,
   "request_id":"...","body":{...}},"error":null,"nightshift":{...}}
Errors file: everything else; `response` if the backend answered over HTTP,
otherwise `error` with code and message. `nightshift` has attempts, backend,
worker, queued_ms, ttft_ms, latency_ms, prompt_tokens, completion_tokens,
cost_usd, finish_reason, flags (empty, truncated, filtered, refused, repetitive),
error_class; and, where known, cached_tokens, reasoning_tokens, connect_ms,
first_byte_ms, gap_mean_ms and gap_max_ms (between pieces of a stream),
server_queue_ms, server_prompt_ms, server_completion_ms, truncated_retries and
empty_retries (calls for a better answer, which are no attempts and whose tokens
are in the account), moved (another backend than the first of its route), and
partial_response (what had come of a stream that broke off).

Error classes: rate_limited, timeout, connection_error, server_error,
context_too_long, invalid_request, model_not_found, content_filter,
incomplete_response, quality_check_failed, worker_crashed, auth, cancelled,
expired.

--json: one document on standard output for a query (status, jobs, workers,
audit, backup, token, version, config show), JSON Lines for a stream (run, watch,
submit --wait): `type` comes first and is "status", and "result" in the last
line. An error is one line on standard error:
  {"type":"error","code":"...","message":"...","hint":"..."}
Fields and words may be added; none is removed or changes its meaning.

Plain progress lines are key=value after the time and the percentage.
)";
}

}  // namespace

std::string OverviewHelp() {
  return R"(Run large offline LLM jobs to the end; resume after any crash.

Usage: nightshift COMMAND [options]

Try it now, no key and no GPU needed:
  nightshift run deploy/examples/topics.csv --template "Write about {{topic}}" \
      --backend sim

Run a file       run
Follow a job     jobs  status  watch  results  errors
Change a job     pause  resume  cancel  retry  delete
Run a cluster    coordinator  worker  submit  workers
Look after it    audit  backup  token  sim-server  config  version
More             help COMMAND, help exit-codes, help environment, help formats
)";
}

std::string CommandHelp(const CommandSpec& command) {
  std::string out =
      absl::StrCat("nightshift ", command.name, ": ", command.summary, "\n\n", "Usage: nightshift ",
                   command.name, *command.positionals != '\0' ? " " : "", command.positionals,
                   " [options]\n\n", Indented(command.examples), "\n");
  if (*command.text != '\0') absl::StrAppend(&out, command.text, "\n\n");
  std::string own;
  std::string shared;
  for (const FlagSpec& flag : AllFlags()) {
    if ((flag.commands & command.bit) == 0) continue;
    absl::StrAppend(IsShared(flag) ? &shared : &own, FlagLine(flag));
  }
  if (!own.empty()) absl::StrAppend(&out, "Options\n", own, "\n");
  absl::StrAppend(&out, "Shared options\n", shared);
  return out;
}

absl::StatusOr<std::string> TopicHelp(absl::string_view topic) {
  if (topic == "exit-codes") return ExitCodeHelp();
  if (topic == "environment") return EnvironmentHelp();
  if (topic == "formats") return FormatsHelp();
  if (const CommandSpec* const command = FindCommand(topic); command != nullptr)
    return CommandHelp(*command);
  std::vector<std::string> known = {"exit-codes", "environment", "formats"};
  for (const CommandSpec& command : AllCommands()) known.emplace_back(command.name);
  const std::string nearest = Nearest(topic, known);
  return absl::NotFoundError(
      absl::StrCat("no help on \"", topic, "\"",
                   nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace nightshift
