"""Prints how many times as long a training step of GPT-2 takes while it is recorded: wall and processor time of each turn.

The recorder is attached and detached in turns in one process, so that both kinds of steps have the same addresses, hashes and clock.
Arguments: the folder of gpt2.py, the folder of the package vramscope, the stacks to record, the number of turns.
"""

import gc
import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path[:0] = sys.argv[1:3]

import gpt2
import torch

import vramscope.torch

STEPS = 12
"""Steps of a turn; the first two warm up."""

model = gpt2.Gpt2().cuda()
optimizer = torch.optim.AdamW(model.parameters())


def step():
    ids = torch.randint(gpt2.VOCABULARY, (gpt2.BATCH, 256), device="cuda")
    model(ids)[0].backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()


def turn():
    """Medians of the steps of a turn: wall and processor time."""
    times = []
    for _ in range(STEPS):
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [statistics.median(column) for column in zip(*times[2:])]


for _ in range(20):
    step()
# Collections fall on random steps.
gc.collect()
gc.disable()
ratios = []
with tempfile.TemporaryDirectory() as folder:
    for n in range(int(sys.argv[4])):
        before = turn()
        recording = vramscope.torch.record(pathlib.Path(folder) / f"{n}.vramscope", stacks=sys.argv[3])
        recorded = turn()
        recording.stop()
        after = turn()
        ratios.append([2 * r / (b + a) for r, b, a in zip(recorded, before, after)])
print(json.dumps(ratios))
