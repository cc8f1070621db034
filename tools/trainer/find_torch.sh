#!/bin/sh
# Prints the folder of the torch package of the Python given, without importing torch: its libraries need not load here.
# Status 1 and a sentence where there is none, or its C++ headers are missing.
[ -x "$1" ] || { echo "no Python with torch at $1: run tools/dev torch, or set the option torch_python" >&2; exit 1; }
folder=$("$1" -c '
from importlib.util import find_spec
spec = find_spec("torch")
print(spec.submodule_search_locations[0] if spec else "")') || exit 1
[ -n "$folder" ] && [ -f "$folder/lib/libtorch_cpu.so" ] && [ -f "$folder/include/ATen/core/Tensor.h" ] ||
  { echo "the Python $1 has no torch with C++ headers: run tools/dev torch" >&2; exit 1; }
echo "$folder"
