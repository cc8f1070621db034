"""PyTorch's DistributedDataParallel over Gloo, on the model and data of rondo-train: a contender of compare_dp.py.

Usage: torch_ddp.py --model resnet50 --image 64 --batch 32 --max-steps 20 --json FILE, under a launcher that sets RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT.  Synthetic images, SGD with momentum, one thread a rank.  Rank 0 writes FILE:
{"images_per_s", "step_ms", "exposed_ms"}, medians over the steps after the first `--warmup`.  Every other step is made
under no_sync(): exposed communication is the difference of the two medians, and images_per_s counts the others.
"""
import argparse
import contextlib
import datetime
import json
import os
import statistics
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
from torch import distributed, nn

LAYERS = {"resnet18": ("basic", (2, 2, 2, 2)), "resnet34": ("basic", (3, 4, 6, 3)),
          "resnet50": ("bottleneck", (3, 4, 6, 3)), "resnet101": ("bottleneck", (3, 4, 23, 3)),
          "resnet152": ("bottleneck", (3, 8, 36, 3))}


def convolution(channels_in, channels_out, size, stride=1):
    return nn.Conv2d(channels_in, channels_out, size, stride, size // 2, bias=False)


class Block(nn.Module):
    """A residual block; in the bottleneck the 3x3 convolution has the stride (ResNet v1.5)."""

    def __init__(self, kind, channels_in, width, stride):
        super().__init__()
        out = width * (4 if kind == "bottleneck" else 1)
        if kind == "bottleneck":
            layers = [(channels_in, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        else:
            layers = [(channels_in, width, 3, stride), (width, width, 3, 1)]
        parts = []
        for layer in layers:
            parts += [convolution(*layer), nn.BatchNorm2d(layer[1]), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts[:-1])
        plain = stride == 1 and channels_in == out
        self.shortcut = nn.Identity() if plain else nn.Sequential(convolution(channels_in, out, 1, stride),
                                                                  nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet(name, classes, small_stem, width):
    kind, counts = LAYERS[name]
    stem = [convolution(3, width, 3)] if small_stem else [nn.Conv2d(3, width, 7, 2, 3, bias=False)]
    stem += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)] + ([] if small_stem else [nn.MaxPool2d(3, 2, 1)])
    layers, channels = [], width
    for stage, count in enumerate(counts):
        for block in range(count):
            layers.append(Block(kind, channels, width << stage, 2 if stage > 0 and block == 0 else 1))
            channels = (width << stage) * (4 if kind == "bottleneck" else 1)
    return nn.Sequential(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def read_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50", choices=LAYERS)
    parser.add_argument("--image", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--num-classes", type=int, default=1000)
    parser.add_argument("--stem", default="imagenet", choices=("imagenet", "small"))
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--bucket-cap-mb", type=float, default=25)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    options.warmup = min(options.warmup, options.max_steps // 2)
    return options


def main():
    options = read_options()
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        resnet(options.model, options.num_classes, options.stem == "small", options.width),
        bucket_cap_mb=options.bucket_cap_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    torch.manual_seed(100 + rank)
    images = torch.randn(options.batch, 3, options.image, options.image)
    labels = torch.randint(0, options.num_classes, (options.batch,))
    seconds = {True: [], False: []}
    for step in range(2 * options.max_steps):
        synchronised = step % 2 == 0
        distributed.barrier()
        began = time.perf_counter()
        optimizer.zero_grad()
        with contextlib.nullcontext() if synchronised else model.no_sync():
            nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if step >= 2 * options.warmup:
            seconds[synchronised].append(time.perf_counter() - began)
    medians = torch.tensor([statistics.median(seconds[True]), statistics.median(seconds[False])])
    distributed.all_reduce(medians, distributed.ReduceOp.MAX)  # a job is as fast as its slowest rank
    step_s, alone_s = medians.tolist()
    result = {"images_per_s": ranks * options.batch / step_s, "step_ms": 1000 * step_s,
              "exposed_ms": 1000 * (step_s - alone_s)}
    if rank == 0:
        print(json.dumps(result))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file)
    distributed.barrier()  # a rank that leaves early ends the others' threads
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
