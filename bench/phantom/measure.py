"""Measures the cost of a phantom GPU, in one run: the delay at program start, and the time of a training step of GPT-2 against
the same step on PyTorch's meta device.

    bench/run.py phantom [--python PYTHON] [--runs N] [--steps N]

PYTHON has PyTorch. Prints medians of alternating runs, each a separate process. Run it on an idle machine.
"""
import argparse, json, statistics, subprocess, sys, time

from turns import ROOT

VRAMSCOPE = ROOT / "target/dist/vramscope"
PROGRAMS = ROOT / "acceptance/workloads"
STEPS = """
import json, sys, time, torch
sys.path.insert(0, sys.argv[1])
from gpt2 import BATCH, VOCABULARY, Gpt2
device, steps = sys.argv[2], int(sys.argv[3])
model = Gpt2().to(device)
optimizer = torch.optim.AdamW(model.parameters())
times = []
for _ in range(steps + 2):
    start = time.perf_counter()
    ids = torch.randint(VOCABULARY, (BATCH, 256), device=device)
    model(ids)[0].backward()
    optimizer.step()
    optimizer.zero_grad()
    times.append(time.perf_counter() - start)
print(json.dumps(times[2:]))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    python, phantom = [arguments.python], [VRAMSCOPE, "phantom", "run", "--json", "--", arguments.python]

    starts = {"import torch": python, "the same on a phantom GPU": phantom}
    seconds = {name: [] for name in starts}
    for turn in range(arguments.runs + 1):
        for name, command in starts.items():
            begun = time.perf_counter()
            subprocess.run([*command, "-c", "import torch"], check=True, capture_output=True)
            if turn:
                seconds[name].append(time.perf_counter() - begun)
    for name, values in seconds.items():
        print(f"  {name:<32}{statistics.median(values):7.3f} s   ({min(values):.3f} to {max(values):.3f})")
    plain, later = (statistics.median(values) for values in seconds.values())
    print(f"  a phantom process starts {later - plain:+.3f} s later")

    devices = {"a step on the meta device": (python, "meta"), "the same on a phantom GPU": (phantom, "cuda")}
    steps = {name: [] for name in devices}
    for _ in range(arguments.runs):
        for name, (command, device) in devices.items():
            done = subprocess.run([*command, "-c", STEPS, PROGRAMS, device, str(arguments.steps)], check=True,
                                  capture_output=True, text=True)
            # With --json the program's own output is on stderr.
            printed = (done.stdout if device == "meta" else done.stderr).splitlines()
            steps[name].append(statistics.median(json.loads(next(l for l in printed if l.startswith("[")))))
    for name, values in steps.items():
        print(f"  {name:<32}{1e3 * statistics.median(values):7.1f} ms  ({1e3 * min(values):.1f} to {1e3 * max(values):.1f})")
    meta, ours = (statistics.median(values) for values in steps.values())
    print(f"  a phantom step takes {ours / meta:.2f} times the step on the meta device")


if __name__ == "__main__":
    sys.exit(main())
