"""Run the workloads of this folder on phantom GPUs, and compare PyTorch's counters with those of recorded runs.

    truth.py TRUTH --run 'vramscope phantom run --once --gpus {gpus} --memory {memory} --context {context} --'

TRUTH is a file with one JSON object per line and run: the workload, its settings, its device, and the counters of PyTorch's
allocator. --run is the command prefix for a program; {gpus} is replaced by the number of GPUs, {memory} by the bytes of each, and
{context} by the bytes of a process before its first allocation.

Only runs of the PyTorch release of --python are repeated. Each run prints one line: `equal`, or every counter that differs with its
expected value. Exits with 1 if any run differs.

Unlike a GPU, the recorded runs had one cuBLAS handle for all threads and devices, no cuBLASLt, and addresses that rise without gaps. So
the programs run with --one-thread, DISABLE_ADDMM_CUDA_LT=1 and VRAMSCOPE_PHANTOM_ADDRESSES=rising, which makes unmodified PyTorch take
the same memory on the first device. The counters are those of the first device. A second device has its own workspace, which the recorded runs lack.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
COUNTERS = [
    "peak_allocated",
    "peak_active",
    "peak_requested",
    "peak_reserved",
    "end_reserved",
    "segments_allocated",
    "segments_freed",
    "num_alloc_retries",
    "num_ooms",
    "allocations",
]
# Error texts are compared up to these words. The rest depends on whether PyTorch finds NVML, which the recorded runs lacked.
LAST_WORDS = " is free."
GPUS = {"two_gpus": 2}
SECONDS = 120


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=pathlib.Path)
    parser.add_argument("--run", required=True, help="prefix of a program's command")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", default="", help="only the runs whose name contains this")
    arguments = parser.parse_args()

    runs = [json.loads(line) for line in arguments.truth.read_text().splitlines()]
    runs = [run for run in runs if arguments.only in run["file"]]
    release = release_of(arguments.python)
    wanted = [run for run in runs if run["torch"] == release]
    equal = 0
    for run in wanted:
        differences = compare(run, arguments)
        equal += not differences
        name = run["file"].removesuffix(".pickle")
        print(f"{name}: {', '.join(differences) or 'equal'}", flush=True)
    print(f"{equal} of {len(wanted)} equal on PyTorch {release}; {len(runs) - len(wanted)} of other releases")
    sys.exit(equal != len(wanted))


def release_of(python):
    command = [python, "-c", "import torch; print(torch.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def compare(run, arguments):
    """Repeat a run; return every counter that differs, in words."""
    try:
        counted = repeat(run, arguments)
    except RuntimeError as error:
        return [str(error)]
    differences = [
        f"{name} is {counted[name]}, should be {run[name]}" for name in COUNTERS if counted[name] != run[name]
    ]
    text, should_be = (oom and oom.partition(LAST_WORDS)[0] for oom in (counted["oom"], run["oom"]))
    if text != should_be:
        differences.append(f"the error is {text!r}, should be {should_be!r}")
    return differences


def repeat(run, arguments):
    """The counters of the run's workload, under its settings and on its device."""
    words = {
        "gpus": GPUS.get(run["name"], 1),
        "memory": run["device_capacity"],
        "context": run["device_capacity"] - run["device_free_at_start"],
    }
    command = [word.format(**words) for word in shlex.split(arguments.run)]
    command += [arguments.python, FOLDER / f"{run['name']}.py", "--one-thread", "--iterations", str(run["iters"])]
    if run["file"].endswith("-late.pickle"):
        command += ["--warm-up", "1"]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": run["conf"]}
    environment |= {"DISABLE_ADDMM_CUDA_LT": "1", "VRAMSCOPE_PHANTOM_ADDRESSES": "rising"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"still runs after {SECONDS} seconds") from None
    # The command exits with 1 if a program does not fit.
    if done.returncode != 0 and not (done.returncode == 1 and run["oom"]):
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"ended with {done.returncode}: {last}")
    # Other programs of the command may print as well; the counters come last.
    return next(json.loads(line) for line in reversed(done.stdout.splitlines()) if line.startswith("{"))


if __name__ == "__main__":
    main()
