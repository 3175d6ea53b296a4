#include <vector>

#include "client/cli/command_set.h"
#include "client/cli/flag_table.h"

namespace nightshift {

const std::vector<CommandSpec>& AllCommands() {
  static const auto* const commands = new std::vector<CommandSpec>{
      {"run", kRun, "INPUT", "run a file of requests to the end, in this one process",
       R"(INPUT is JSON Lines, a text file with one prompt per line (*.txt) or a CSV file
with --template (*.csv); also as .gz or .zst; - is standard input. See
`nightshift help formats`.

Answers are kept in --data-dir as they come. Stop with Ctrl-C at any time: the
same command again goes on where it stopped, and when all is done it writes the
files again without one call.)",
       R"(nightshift run prompts.jsonl --backend http://127.0.0.1:8000/v1
nightshift run topics.csv --template "Write about {{topic}}" --backend sim
nightshift run prompts.jsonl --backend cerebras --model llama3.1-8b --limit 10)"},
      {"coordinator", kCoordinator, "", "keep jobs, hand out work, collect answers",
       R"(Prints the addresses it listens on, one line each; port 0 picks a free port.
Without --token-file anyone who can reach the address may use it, and without
--tls-cert everything travels in clear: an address other than loopback takes
both, or --insecure. `nightshift token` writes the token file; one with a single
token in clear is taken as well, and that token may do everything.

The files of tokens and certificates are read again when they change.)",
       R"(nightshift coordinator
nightshift coordinator --grpc 127.0.0.1:0 --data-dir /var/lib/nightshift)"},
      {"worker", kWorker, "", "take work from a coordinator and call backends",
       R"(SIGTERM or Ctrl-C: takes no new work, waits --drain-timeout for the calls in
flight, hands back the rest.

Answers wait in --spool-dir until the coordinator has recorded them, so that
they survive this process: the next worker with the same folder delivers them.)",
       R"(nightshift worker --backend http://127.0.0.1:8000/v1
nightshift worker --coordinator 127.0.0.1:7440 --backend sim --name sim-1)"},
      {"submit", kSubmit, "INPUT", "hand a job in; prints its id alone on standard output", "",
       R"(id=$(nightshift submit prompts.jsonl --name "Quarterly reports")
nightshift submit prompts.jsonl --wait -o answers.jsonl)"},
      {"jobs", kJobs, "", "list the jobs, newest first", "", "nightshift jobs"},
      {"status", kStatus, "JOB", "show one job",
       "JOB is an id or its unique beginning. Ends with 0 whatever the state.",
       R"(nightshift status job_3f2a
nightshift status job_3f2a --json)"},
      {"watch", kWatch, "JOB", "follow a job to its end; ends with the job's exit code", "",
       R"(nightshift watch job_3f2a
nightshift watch job_3f2a --timeout 1h)"},
      {"results", kResults, "JOB", "write the answers of a job",
       "While the job runs: what is there so far, in input order.",
       R"(nightshift results job_3f2a -o answers.jsonl
nightshift results job_3f2a --first)"},
      {"errors", kErrors, "JOB", "write what a job could not answer, and why", "",
       R"(nightshift errors job_3f2a
nightshift errors job_3f2a --class context_too_long -o long.jsonl)"},
      {"pause", kPause, "JOB", "stop starting calls of a job", "", "nightshift pause job_3f2a"},
      {"resume", kResume, "JOB", "let a paused job go on",
       "A job that has spent its budget goes on with a larger one.",
       "nightshift resume job_3f2a --budget-usd 20"},
      {"cancel", kCancel, "JOB", "end a job now; answers so far stay", "",
       "nightshift cancel job_3f2a"},
      {"retry", kRetry, "JOB", "run again only what failed, in the same job", "",
       R"(nightshift retry job_3f2a
nightshift retry job_3f2a --class timeout --class server_error)"},
      {"delete", kDelete, "JOB", "remove an ended job with all its answers", "",
       "nightshift delete job_3f2a --yes"},
      {"workers", kWorkers, "", "show the fleet: backends, limits, calls in flight, rates", "",
       "nightshift workers"},
      {"audit", kAudit, "[JOB]", "prove that every request is in exactly one place",
       R"(Recounts the job (or all jobs) from the stored rows. Ends with 0 or 1.

--repair first writes anew what only counts: which requests are finished, sums,
attempts. Answers are never touched. A request that was marked as finished and
has no answer runs again. No coordinator or run may have the folder open.)",
       R"(nightshift audit
nightshift audit --repair --data-dir /var/lib/nightshift)"},
      {"backup", kBackup, "create|list|restore [BACKUP]",
       "copies of all jobs and answers, made while they are in use",
       R"(create   copies the store of a coordinator that runs, or of --data-dir, into
         --backup-dir; what earlier backups there have is not copied again. It
         is read back before it counts. Seen from another machine, the folder is
         the coordinator's own to choose (its --backup-dir). Files that were
         uploaded over HTTP are not in it; jobs that were made from them are.
list     what is there; those that are not damaged can be restored.
restore  makes --data-dir, which must be absent or empty, what it was when
         BACKUP (a number; default: the newest) was made. Then start the
         coordinator, or the same `nightshift run`, as ever. What was answered
         after the backup is called again; answers that workers still hold for
         the lost store are never delivered to this one.)",
       R"(nightshift backup create --keep 7
nightshift backup list
nightshift backup restore --data-dir /var/lib/nightshift)"},
      {"token", kToken, "create|list|revoke [ID]", "who may use a coordinator",
       R"(Works on --token-file, which a coordinator reads, and again whenever it changes.
It holds salted hashes: a token is shown once, by create, alone on standard
output. Roles: read looks at jobs, files and answers; submit also hands them in,
controls and deletes them; worker takes work, nothing else; admin does
everything, for all tenants. A tenant sees only what its own tokens have made;
tokens without a tenant share what belongs to none.)",
       R"(nightshift token create --token-file tokens --role admin --name me > me.token
nightshift token create --token-file tokens --role submit --tenant search
nightshift token list --token-file tokens
nightshift token revoke 3f2a91bc04 --token-file tokens)"},
      {"sim-server", kSimServer, "", "a simulated inference server, to try things out",
       "Prints `listening on http://HOST:PORT` once ready. No model is called.",
       "nightshift sim-server --listen 127.0.0.1:8000 --profile gpu"},
      {"config", kConfig, "show", "show every setting and where it comes from",
       R"(A flag wins over its environment variable, which wins over the file of --config,
which wins over ~/.config/nightshift/config.yaml.)",
       "nightshift config show"},
      {"version", kVersion, "", "show the version", "", "nightshift version"},
      {"help", kHelp, "[TOPIC]", "explain a command or a topic",
       "Topics: exit-codes, environment, formats, and every command.",
       R"(nightshift help run
nightshift help exit-codes)"},
  };
  return *commands;
}

}  // namespace nightshift
