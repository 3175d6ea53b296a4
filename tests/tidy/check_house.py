#!/usr/bin/env python3
"""House rules that a compiler does not check: formatting, folder READMEs, file sizes, unfinished work.

    check_house.py SOURCE_ROOT
"""
import os
import re
import subprocess
import sys

LINES_MAX = 600
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NOT IMPLEMENTED)\b|GTEST_SKIP|DISABLED_")
NEEDS_README = ["base", "proto", "storage", "coordinator", "coordinator/core", "coordinator/commit",
                "coordinator/http", "coordinator/jobs", "coordinator/rpc", "coordinator/maintenance", "worker",
                "worker/core", "worker/backends", "worker/link", "worker/spool", "client", "tests", "deploy"]


def main():
    root = sys.argv[1]
    os.chdir(root)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.split("\n")
    files = [f for f in listed if f and os.path.isfile(f)]
    sources = [f for f in files if f.endswith((".cc", ".h"))]
    assert len(sources) > 20, f"only {len(sources)} source files found under {root}"
    found = []

    for path in sources:
        with open(path, encoding="utf-8") as handle:
            lines = handle.read().split("\n")
        if len(lines) > LINES_MAX and not path.startswith("tests/"):
            found.append(f"{path}: {len(lines)} lines; over {LINES_MAX} it is two concepts")
        if path.endswith(".h") and not path.startswith("tests/"):
            guard = "NIGHTSHIFT_" + re.sub(r"[/.]", "_", path).upper() + "_"
            if not any(line == f"#ifndef {guard}" for line in lines):
                found.append(f"{path}: include guard is not {guard}")
            if not lines[0].startswith("//"):
                found.append(f"{path}: a header begins by saying what it is")
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                found.append(f"{path}:{number}: unfinished or skipped: {line.strip()}")

    for folder in NEEDS_README:
        if not os.path.isfile(os.path.join(folder, "README.md")):
            found.append(f"{folder}/README.md is missing")

    for script in [f for f in files if f.endswith(".sh")]:
        if not os.access(script, os.X_OK):
            found.append(f"{script} is not executable")

    for start in range(0, len(sources), 50):
        result = subprocess.run(["clang-format", "--dry-run", "-Werror", *sources[start:start + 50]],
                                capture_output=True, text=True)
        if result.returncode:
            names = sorted({line.split(":")[0] for line in result.stderr.split("\n") if "error:" in line})
            found += [f"{name}: not formatted; run clang-format -i on it" for name in names]

    for line in found:
        print(line)
    print(f"{len(files)} files read, {len(found)} findings")
    sys.exit(1 if found else 0)


main()
