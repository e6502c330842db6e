"""Measures the memory of a process that records ten million allocator events: `bench/run.py long_recording [MILLIONS]`.

After 1, 5 and 10 million
events it prints the resident memory of the process and the seconds since the start.
"""

import sys
import time

import torch
import vramscope.torch
from torch import nn


def resident() -> int:
    """Resident memory of this process in MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS:"))


def main(millions: int) -> None:
    """Trains a small model for `millions` million events."""
    model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU()))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    recording = vramscope.torch.record("long_run.pickle", model=model, optimizer=optimizer)
    begin, number, marks = time.monotonic(), 0, [mark for mark in (1, 5, 10, 15, 20) if mark < millions] + [millions]
    counters = torch.cuda.memory_stats()
    before = counters["allocation.all.allocated"] + 2 * counters["allocation.all.freed"]
    while marks:
        # The shapes change, so no step matches the previous one.
        number += 1
        model(torch.randn(8 + number % 56, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 100 == 0:
            counters = torch.cuda.memory_stats()
            # A free is two events.
            events = counters["allocation.all.allocated"] + 2 * counters["allocation.all.freed"] - before
            if events >= marks[0] * 1_000_000:
                print(f"{events:,} events: {resident():,} MiB, {time.monotonic() - begin:.0f} s", flush=True)
                marks.pop(0)
    recording.stop()
    print(f"written: {resident():,} MiB", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
