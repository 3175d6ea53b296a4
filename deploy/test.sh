#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test that gates a change:
#
#   clang   builds the program with thread-safety analysis as errors
#   dev     everything: unit, tidy, command line, integration and fault tests
#
#   deploy/test.sh            all of it
#   deploy/test.sh dev        only the named presets
#   deploy/test.sh asan       unit tests under AddressSanitizer and UBSan
#   deploy/test.sh tsan       pure logic under ThreadSanitizer
#
# The sanitizers are by name only until all of their tests have been seen clean: tests/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install.sh

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(clang dev)

for preset in "${presets[@]}"; do
  started=$SECONDS
  echo "=== $preset: build"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset"
  echo "=== $preset: built in $((SECONDS - started)) s"
  [ "$preset" = clang ] && continue
  ctest --preset "$preset" --no-tests=error
done
