#!/usr/bin/env python3
"""docs/environment.md is what `rondo info --env --markdown` prints now, and `rondo info` tells of wrong names."""
import os
import subprocess
import sys

RONDO, DOCUMENT = sys.argv[1:3]


def info(*arguments, **environment):
    return subprocess.run([RONDO, "info", *arguments], env=dict(os.environ, **environment), check=True,
                          capture_output=True, text=True).stdout


with open(DOCUMENT, encoding="utf-8") as file:
    current = file.read() == info("--env", "--markdown")
if not current:
    sys.exit("docs/environment.md is old: build/tools/rondo info --env --markdown > docs/environment.md")
for part in ("RONDO_TIMEOUT", "NCCL_DEBUG", "seconds; default 300"):
    if part not in info("--env"):
        sys.exit(f"rondo info --env does not tell of {part}")
if "NCCL_DEBG is not known; did you mean NCCL_DEBUG?" not in info(NCCL_DEBG="INFO"):
    sys.exit("rondo info does not warn of NCCL_DEBG")
if "NCCL_CONF_FILE=/ cannot be read" not in info(NCCL_CONF_FILE="/"):
    sys.exit("rondo info does not warn of a configuration file that is a folder")
if subprocess.run([RONDO, "info", "--markdown"], capture_output=True).returncode != 2:
    sys.exit("--markdown without --env must be refused")
