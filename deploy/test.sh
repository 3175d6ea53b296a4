#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test that gates a change:
#
#   clang   builds the program with thread-safety analysis as errors
#   dev     everything but the unit tests: tidy, command line, HTTP, integration, simulation, faults
#   asan    unit tests under AddressSanitizer and UBSan
#   tsan    those of several threads that link neither gRPC nor RocksDB, under ThreadSanitizer
#
#   deploy/test.sh            all of it
#   deploy/test.sh dev        only the named presets, each with all of its tests
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install.sh

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(clang dev asan tsan)

for preset in "${presets[@]}"; do
  targets=()
  filter=()
  # Each unit test runs once, in the stricter build.
  if [ "$preset" = dev ] && [ $# -eq 0 ]; then
    targets=(--target system_tests)
    filter=(--label-exclude unit)
  fi
  started=$SECONDS
  echo "=== $preset: build"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" "${targets[@]}"
  echo "=== $preset: built in $((SECONDS - started)) s"
  [ "$preset" = clang ] && continue
  # Most tests take two places, those that mostly wait take one.
  ctest --preset "$preset" --no-tests=error -j "$((2 * $(nproc)))" "${filter[@]}"
  echo "=== $preset: built and tested in $((SECONDS - started)) s"
done
