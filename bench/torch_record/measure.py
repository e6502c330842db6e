"""Measures the cost of a training step recorded by `vramscope.torch.record`, against PyTorch's history alone.

    bench/run.py torch_record [--turns N] [--stacks python|all]

Both have the same stacks. Steps of the smallest GPT-2 alternate in one process. A phantom GPU's kernels take no time, so
this measures processor time, which on a GPU is hidden if kernels take longer. The hooks are active in the first steps of a
recording, and pause after some steps that bring nothing new; both are measured. Prints medians of the processor time of a
step, and medians of the ratios of neighbors.
"""

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable

import gpt2
import torch
import vramscope.torch


FIRST, LATER = 4, 8


def processor_time(step: Callable[[], None], steps: int) -> float:
    """Processor time of a step in milliseconds, averaged over `steps` steps."""
    gc.collect()
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps * 1e3


def main() -> None:
    """Measures in alternating turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--stacks", choices=["python", "all"], default="python")
    asked = parser.parse_args()
    model = gpt2.Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        ids = torch.randint(gpt2.VOCABULARY, (8, 128), device="cuda")
        loss = model(ids)[0]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def history() -> float:
        entries = vramscope.torch.MAX_ENTRIES
        torch.cuda.memory._record_memory_history(max_entries=entries, stacks=asked.stacks)
        step()
        taken = processor_time(step, FIRST + LATER)
        torch.cuda.memory._record_memory_history(enabled=None)
        return taken

    def recorded() -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            recording = vramscope.torch.record(
                f"{folder}/run.pickle", model=model, optimizer=optimizer, stacks=asked.stacks
            )
            step()
            first = processor_time(step, FIRST)
            for _ in range(4):
                step()
            later = processor_time(step, LATER)
            # The recording is not written, because only steps are measured.
            recording._end()
        return first, later

    for _ in range(5):
        step()
    turns = []
    for turn in range(asked.turns):
        if turn % 2:
            alone, ours = history(), recorded()
        else:
            ours, alone = recorded(), history()
        turns.append((alone, *ours))
    for column, name in enumerate(["history alone", "recorded, first steps", "recorded, later steps"]):
        times = [turn[column] for turn in turns]
        ratio = statistics.median(turn[column] / turn[0] for turn in turns)
        print(f"{name:<22} {statistics.median(times):6.2f} ms a step ({min(times):.2f} to {max(times):.2f})   {ratio:.3f} times")


if __name__ == "__main__":
    main()
