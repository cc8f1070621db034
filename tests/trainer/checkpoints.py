"""Reads the checkpoints of rondo-train, as tools/trainer/checkpoint.h describes them."""
import array
import json
import os
import struct


def newest(folder):
    """The path of the last step's checkpoint in `folder`."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("checkpoint-"))
    return os.path.join(folder, names[-1])


def read(path):
    """(state, {name: bytes})."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"RONDOCK1", data[:8]
    length, = struct.unpack_from("<Q", data, 8)
    index = json.loads(data[16:16 + length])
    start = 16 + length
    return index["state"], {row["name"]: data[start + row["offset"]:start + row["offset"] + row["bytes"]]
                            for row in index["tensors"]}


def difference(one, other):
    """The largest difference of two lists of float64 tensors' values, relative to the largest value of its tensor."""
    largest = 0.0
    assert one.keys() == other.keys()
    for name in one:
        a, b = (array.array("d", tensors[name]) for tensors in (one, other))
        size = max(map(abs, a))
        if size > 0:
            largest = max(largest, max(abs(x - y) for x, y in zip(a, b)) / size)
    return largest
