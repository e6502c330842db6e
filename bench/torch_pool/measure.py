"""Prints the processor time of `torch.empty` and `del` with vramscope's pool beside PyTorch's own allocator, in turns.

    bench/run.py torch_pool

Each turn runs PyTorch's allocator, the pool, and the pool with a plan in processes of their own, in random order. A process makes 20
blocks of 1 KiB to 32 MiB and frees them, again and again. Prints the medians over the turns, in nanoseconds for one block, and the median
of the ratios within a turn. TURNS is their number.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

TURNS = int(os.environ.get("TURNS", "15"))
SIZES = [1 << (10 + index % 16) for index in range(20)]
ROUNDS = 50
KINDS = ["own", "pool", "planned"]


def measure(kind, plan):
    """Print the processor time of one block in nanoseconds, and the part of planned requests."""
    sys.path += filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    import torch

    pool = None
    if kind != "own":
        import vramscope.torch

        pool = vramscope.torch.use_pool(plan=plan if kind == "planned" else None)
    empty, uint8 = torch.empty, torch.uint8
    times = []
    for _ in range(20):
        begin = time.thread_time_ns()
        for _ in range(ROUNDS):
            blocks = [empty(size, dtype=uint8, device="cuda") for size in SIZES]
            del blocks
        times.append((time.thread_time_ns() - begin) / (ROUNDS * len(SIZES)))
    served = {name: requests for name, (requests, _) in pool.plan_use().items()} if pool else {}
    planned = served["planned"] / sum(served.values()) if served else 0
    print("RESULT", statistics.median(times), planned)


def write_plan(path):
    """A plan whose step is a round, with all blocks in a row."""
    offsets = [sum(SIZES[:index]) for index in range(len(SIZES))]
    rows = ",".join(f"[{size},0,{offset}]" for size, offset in zip(SIZES, offsets, strict=True))
    segment = -(-sum(SIZES) // (2 << 20)) * (2 << 20)
    with open(path, "w") as file:
        file.write(f'{{"vramscope_plan":1,"segments":[{segment}],"startup":[],"step":[{rows}]}}')


def main():
    chance = random.Random(0)
    times = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "round.plan")
        write_plan(plan)
        for _ in range(TURNS):
            for kind in chance.sample(KINDS, len(KINDS)):
                # Without the phantom's own Python code, which records PyTorch's history.
                command = [sys.executable, "-I", __file__, kind, plan]
                output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                line = next(line for line in output.splitlines() if line.startswith("RESULT")).split()
                assert kind != "planned" or float(line[2]) > 0.99, line
                times[kind].append(float(line[1]))
    for kind in KINDS:
        ratio = statistics.median(ours / own for ours, own in zip(times[kind], times["own"], strict=True))
        print(f"{kind:<8}{statistics.median(times[kind]):8,.0f} ns for a block  {ratio:.2f} times PyTorch's own")


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(*sys.argv[1:3])
    else:
        main()
