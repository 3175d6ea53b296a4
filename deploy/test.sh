#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test that gates a change:
#
#   clang   builds the program with thread-safety analysis as errors
#   dev     everything: unit, tidy, command line, integration and fault tests
#   asan    unit tests under AddressSanitizer and UBSan
#   tsan    what links neither gRPC nor RocksDB, under ThreadSanitizer
#
#   deploy/test.sh            all of it
#   deploy/test.sh dev        only the named presets
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install.sh

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(clang dev asan tsan)

for preset in "${presets[@]}"; do
  started=$SECONDS
  echo "=== $preset: build"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset"
  echo "=== $preset: built in $((SECONDS - started)) s"
  [ "$preset" = clang ] && continue
  ctest --preset "$preset" --no-tests=error -j "$(nproc)"
done
