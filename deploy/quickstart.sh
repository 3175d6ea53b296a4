#!/usr/bin/env bash
# From a fresh Debian 12 machine to a job that runs: installs packages, builds, runs.
#
#   deploy/quickstart.sh                        the shipped example, on simulated answers
#   deploy/quickstart.sh FILE [run options]     your own file, as `nightshift run FILE …`
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

"$root/deploy/install.sh"
(
  cd "$root"
  cmake --preset release -DNIGHTSHIFT_TESTS=OFF >/dev/null
  cmake --build --preset release --target nightshift
) >&2

if [ $# -eq 0 ]; then
  set -- "$root/deploy/examples/topics.csv" --template "Write two sentences about {{topic}}." --backend sim
fi
exec "$root/build/release/nightshift" run "$@"
