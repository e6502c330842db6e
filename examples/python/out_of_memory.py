"""Runs out of memory, explains why, and checks larger cards.

python examples/python/out_of_memory.py

`vramscope.torch.record` prints the explanation on stderr. The rest reads the recording, which also works later.
"""

from __future__ import annotations

import torch
import vramscope
import vramscope.torch
from torch import nn

GIB = 1 << 30


def train(model: nn.Module, batch: int) -> None:
    """One step on `batch` rows."""
    rows = torch.randn(batch, 4096, device="cuda")
    model(rows).square().mean().backward()
    model.zero_grad()


def main() -> None:
    """Doubles the batch size until the batch no longer fits."""
    model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(4096, 4096), nn.GELU()))).cuda()
    recording = vramscope.torch.record("oom.pickle", model=model)
    batch = 1 << 14
    try:
        while True:
            train(model, batch)
            batch *= 2
    except torch.OutOfMemoryError:
        print(f"a batch of {batch:,} does not fit; a batch of {batch // 2:,} fits")
    recording.stop()

    run = vramscope.read(recording.path)
    oom = run.ooms()[0]
    print(f"{oom['requested_bytes'] / GIB:.1f} GiB requested, with {oom['allocated_bytes'] / GIB:.1f} GiB in use:")
    for holder in run.holders(by="category", at=oom["event"], top=3):
        print(f"{holder['bytes'] / GIB:8.1f} GiB  {holder['key']}")
    for gpu in ("h100-80gb", "h200"):
        replayed = run.replay(gpu=gpu)["replayed"]
        print(f"the recorded requests on {gpu}:", "they fit" if replayed["fits"] else "out of memory again")


if __name__ == "__main__":
    main()
