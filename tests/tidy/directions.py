"""Who may include whom: the rooms of docs/architecture.md as a table.

A part is one or more files; a row lists the other parts that it may include (itself always).  Every file of runtime/,
transports/, kernels/, perf/, tools/ and docs/ must belong to a part, so that a new file takes its place knowingly.
"""
import os
import re

# part: (pattern of its files, parts it may include).  The first row that matches a file is its part.
PARTS = {
    "nccl.h": (r"runtime/(nccl|rondo)\.h$", []),
    "base": (r"runtime/base/", []),
    "plan": (r"runtime/plan/", ["base"]),
    "transport.h": (r"runtime/transport\.h$", ["base"]),
    "reducer.h": (r"runtime/reducer\.h$", ["base"]),
    "memory.h": (r"runtime/memory\.h$", ["base"]),
    "wait": (r"runtime/wait\.(h|cpp)$", ["base"]),
    "executor": (r"runtime/executor(\.|/|_)", ["base", "plan", "transport.h", "reducer.h", "wait"]),
    "control": (r"runtime/(control|bootstrap)(\.|/|_)", ["base", "transport.h"]),
    "communicator": (r"runtime/communicator(\.|/|_)",
                     ["base", "plan", "transport.h", "reducer.h", "memory.h", "wait", "executor", "control"]),
    "mapped memory": (r"transports/(slots|rings|lines|places|shared_copy|told_order|regions|shared_memory)\.(h|cpp)$",
                      ["base", "transport.h", "memory.h"]),
    "shm": (r"transports/shm(\.|/|_)", ["base", "transport.h", "memory.h", "mapped memory"]),
    "tcp": (r"transports/tcp(\.|/|_)", ["base", "transport.h"]),
    "simulated": (r"transports/simulated(\.|/|_)", ["base", "transport.h", "mapped memory"]),
    "kernels": (r"kernels/", ["base", "reducer.h"]),
    "assembly": (r"runtime/assembly(\.|/|_)",
                 ["base", "plan", "transport.h", "reducer.h", "memory.h", "wait", "executor", "control", "communicator",
                  "mapped memory", "shm", "tcp", "kernels"]),
    "api": (r"runtime/(api|group|queue)(\.|/|_)",
            ["nccl.h", "base", "control", "communicator", "memory.h", "assembly"]),
    # The named exceptions of perf/ and tools/: they look inside.
    "inside perf": (r"perf/(links|executor|reducer|limits)(\.|/|_)",
                    ["perf", "nccl.h", "base", "plan", "transport.h", "reducer.h", "memory.h", "wait", "executor",
                     "mapped memory", "shm", "tcp", "simulated", "kernels"]),
    "plan tool": (r"tools/plan/", ["tools", "base", "plan"]),
    "doctor tool": (r"tools/doctor/", ["tools", "nccl.h", "base"]),
    "tune tool": (r"tools/tune/", ["tools", "nccl.h", "base", "plan"]),
    "info tool": (r"tools/rondo/info", ["tools", "nccl.h", "base"]),
    "run tool": (r"tools/run/", ["base"]),
    "rondo command": (r"tools/rondo/main",
                      ["tools", "nccl.h", "base", "printed", "plan tool", "doctor tool", "tune tool", "info tool",
                       "run tool"]),
    "printed": (r"tools/printed\.h$", []),
    "trainer base": (r"tools/trainer/base/", []),
    "trainer data": (r"tools/trainer/data/", ["trainer base"]),
    "chart": (r"tools/plot/chart\.", []),
    "trainer report": (r"tools/trainer/report/", ["trainer base", "chart"]),
    "data parallel": (r"tools/trainer/data_parallel/", ["nccl.h"]),
    "torch adapter": (r"tools/trainer/adapter/", ["nccl.h", "data parallel"]),
    "trainer": (r"tools/trainer/",
                ["nccl.h", "printed", "trainer base", "trainer data", "trainer report", "data parallel",
                 "torch adapter"]),
    "perf": (r"perf/", ["nccl.h"]),
    "tools": (r"tools/", ["nccl.h", "plan tool", "doctor tool", "tune tool", "info tool", "run tool", "chart"]),
    "docs": (r"docs/", ["nccl.h"]),
}
# Headers of CUDA and verbs, and the files that may include them: none yet.
DEVICE_HEADERS = re.compile(r"(cuda|cublas|nvml|driver_types|infiniband/|rdma/)")
# libtorch's headers, and the parts that may include them.
TORCH_HEADERS = re.compile(r"(ATen|c10|torch)/")
TORCH_PARTS = ("torch adapter", "trainer")
STANDARD = re.compile(r"[a-z_0-9]+$")


def part_of(path):
    """The part that a file belongs to, or None."""
    return next((part for part, (pattern, _) in PARTS.items() if re.match(pattern, path)), None)


def resolve(path, name, files):
    """The file that `#include "name"` in `path` means: beside it, then from runtime/, then from the top."""
    for folder in (os.path.dirname(path), "runtime", ""):
        candidate = os.path.normpath(os.path.join(folder, name))
        if candidate in files:
            return candidate
    return None


def violations(path, lines, files):
    """(line, sentence) for every include of `path` that points the wrong way."""
    if path.startswith("tests/"):
        return
    part = part_of(path)
    if part is None:
        yield 1, "belongs to no part of the table in tests/tidy/directions.py: give it a place"
        return
    for number, line in enumerate(lines, 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        quote, name = found.groups()
        if DEVICE_HEADERS.match(name):
            yield number, f"{name}: CUDA and verbs headers appear only in their own files"
        elif TORCH_HEADERS.match(name) and part not in TORCH_PARTS:
            yield number, f"{name}: only the trainer and its adapter know torch"
        elif quote == "<":
            if part == "plan" and not STANDARD.match(name):
                yield number, f"{name}: plans use only the standard library and base/"
        elif (target := resolve(path, name, files)) is None:
            yield number, f"{name} is no file of this repository; others' headers are included with <>"
        elif target.startswith("tests/"):
            yield number, f"{target}: nothing includes tests"
        else:
            other = part_of(target)
            if other != part and other not in PARTS[part][1]:
                yield number, f"{part} may not include {target} ({other})"
