#!/usr/bin/env python3
"""What `meson install` gives is enough: a C program built with its pkg-config file alone finds header and library, and
runs as a world of one rank."""
import os
import subprocess
import sys
import tempfile

BUILD = sys.argv[1]
PROGRAM = """
#include <stdio.h>
#include "rondo.h"
int main(void) {
  float x = 3, sum = 0;
  ncclComm_t comm;
  if (rondoCommInitFromEnv(&comm) != ncclSuccess) return puts(ncclGetLastError(NULL)), 1;
  if (ncclAllReduce(&x, &sum, 1, ncclFloat, ncclSum, comm, NULL) != ncclSuccess) return 2;
  printf("%g\\n", sum);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 3;
}
"""


def main():
    introspected = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], check=True, capture_output=True,
                                  text=True).stdout
    if '"value": "none"' not in introspected.split('"name": "b_sanitize"')[1].split("}")[0]:
        print("skipped: a plain C program cannot load a library with a sanitizer")
        return 77
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["meson", "install", "-C", BUILD, "--destdir", root, "--no-rebuild", "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        folders = [at for at, _, names in os.walk(root) if "rondo.pc" in names]
        environment = dict(os.environ, PKG_CONFIG_PATH=folders[0], PKG_CONFIG_SYSROOT_DIR=root)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "rondo"], env=environment, check=True,
                               capture_output=True, text=True).stdout.split()
        source, program = os.path.join(root, "first.c"), os.path.join(root, "first")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", source, "-o", program] + flags, check=True)
        environment.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT=str(os.getpid() % 60000 + 1),
                           LD_LIBRARY_PATH=os.path.dirname(folders[0]), RONDO_TIMEOUT="20")
        output = subprocess.run([program], env=environment, check=True, capture_output=True, text=True).stdout
        print("the program printed", output.strip())
        return 0 if output == "3\n" else 1


if __name__ == "__main__":
    sys.exit(main())
