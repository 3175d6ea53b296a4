#!/usr/bin/env python3
"""Reads every #include of the project against the layering table, so that the rule cannot rot.

    check_includes.py SOURCE_ROOT        exit 1 and one line per breach
    check_includes.py --self-test        shows that it can find something
"""
import os
import re
import subprocess
import sys

# Folder -> folders whose headers it may include besides its own. The longest matching prefix of a
# file's path decides. "proto" stands for generated code.
CORE = {"base", "proto", "storage"}
LAYERS = {
    "base": set(),
    "proto": {"base"},
    "storage": {"base", "proto"},
    "coordinator/core": CORE,
    "coordinator/commit": CORE | {"coordinator/core"},
    "coordinator/jobs": CORE | {"coordinator/core", "coordinator/commit"},
    "coordinator/maintenance": CORE | {"coordinator/core", "coordinator/commit", "coordinator/jobs"},
    "coordinator/access": {"base"},
    "coordinator/rpc": CORE | {"coordinator/access", "coordinator/core", "coordinator/commit",
                               "coordinator/jobs"},
    "coordinator/http": CORE | {"coordinator/access", "coordinator/core", "coordinator/commit",
                                "coordinator/jobs"},
    "coordinator": CORE | {"coordinator/access", "coordinator/core", "coordinator/commit", "coordinator/jobs",
                           "coordinator/maintenance", "coordinator/rpc", "coordinator/http"},
    "worker/core": {"base", "proto"},
    "worker/backends": {"base", "proto", "worker/core"},
    "worker/link": {"base", "proto", "worker/core", "worker/backends"},
    "worker/http": {"base", "proto", "worker/core"},
    "worker/spool": {"base", "proto", "worker/core"},
    "worker": {"base", "proto", "worker/core", "worker/backends", "worker/link", "worker/http",
               "worker/spool"},
    "client/rpc": {"base", "proto"},
    "client/input": {"base"},
    "client/output": {"base", "proto"},
    "client/sim": {"base"},
    "client/cli": {"base", "proto", "client/output"},
    "client/commands": {"base", "proto", "client/rpc", "client/input", "client/output", "client/sim",
                        "client/cli", "coordinator", "worker", "worker/backends"},
    "client": {"base", "client/cli", "client/commands", "client/output", "client/sim"},
}

# Third-party headers that only some folders may see: prefix -> folders.
FENCED = {
    "grpc": {"proto", "coordinator", "coordinator/rpc", "worker", "worker/link", "client/rpc",
             "client/commands"},
    "rocksdb/": {"storage"},
    "curl/": {"worker/backends"},
    "httplib.h": {"base", "client/sim", "coordinator/http", "worker/http"},
    "prometheus/": {"coordinator/http", "worker/http"},
    "simdjson.h": {"base", "worker/backends"},
    "spdlog/": {"base"},
    "CLI/": {"client", "client/cli", "client/commands", "client/sim"},
    "yaml-cpp/": {"client/cli", "client/commands"},
}
# Real time and threads stay out of the pure folders.
PURE = {"coordinator/core", "worker/core"}
IMPURE = re.compile(r"^(thread|future|chrono|condition_variable|unistd\.h|sys/.*|absl/time/clock\.h|fstream|filesystem)$")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def layer_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in LAYERS:
        folder = os.path.dirname(folder)
    return folder


def breaches(path, text, project_folders):
    layer = layer_of(path)
    if not layer:
        return [f"{path}: its folder is not in the layering table of tests/tidy/check_includes.py"]
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        where = f"{path}:{number}: {layer} includes {name}"
        if name.startswith("nightshift/v1/"):
            target = "proto"
            if name.endswith(".grpc.pb.h") and layer not in FENCED["grpc"]:
                found.append(f"{where}: gRPC stays out of this folder")
        elif name.split("/")[0] in project_folders and "/" in name:
            target = layer_of(name)
        else:
            for prefix, folders in FENCED.items():
                if name.startswith(prefix) and layer not in folders:
                    found.append(f"{where}: allowed only in {', '.join(sorted(folders))}")
            if layer in PURE and IMPURE.match(name):
                found.append(f"{where}: no threads, files or real time in {layer}")
            continue
        if target != layer and target not in LAYERS[layer]:
            found.append(f"{where}: {target or 'an unknown folder'} is not below {layer}")
    return found


def self_test():
    top = {"base", "storage", "coordinator", "worker", "client", "proto"}
    good = [("worker/core/a.cc", '#include "base/clock.h"\n#include "nightshift/v1/types.pb.h"'),
            ("storage/x.cc", "#include <rocksdb/db.h>")]
    bad = [("base/a.cc", '#include "storage/store.h"'),
           ("worker/core/a.cc", "#include <thread>"),
           ("worker/core/a.cc", '#include "coordinator/core/ids.h"'),
           ("coordinator/core/a.cc", '#include "nightshift/v1/jobs.grpc.pb.h"'),
           ("coordinator/rpc/a.cc", '#include "coordinator/http/server.h"'),
           ("client/output/a.cc", "#include <curl/curl.h>"),
           ("elsewhere/a.cc", '#include "base/clock.h"')]
    for path, text in good:
        assert not breaches(path, text, top), (path, text)
    for path, text in bad:
        assert breaches(path, text, top), (path, text)
    print(f"{len(good) + len(bad)} passed, 0 failed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1]
    files = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.h", "*.cc"],
                           check=True, capture_output=True, text=True).stdout.split()
    files = [f for f in files if not f.startswith("tests/") and os.path.exists(os.path.join(root, f))]
    assert len(files) > 20, f"only {len(files)} source files found under {root}"
    top = {f.split("/")[0] for f in files} | {"proto"}
    found = []
    for path in files:
        with open(os.path.join(root, path), encoding="utf-8") as handle:
            found += breaches(path, handle.read(), top)
    for line in found:
        print(line)
    print(f"{len(files)} files read, {len(found)} breaches")
    sys.exit(1 if found else 0)


main()
