"""Compares a recorder's log with PyTorch's own history of the same run, event by event.

    compare.py TRUTH --vramscope target/release/vramscope --python PYTHON

TRUTH is a file with one JSON object per line and run, as for `vramscope-phantom/programs/truth.py`: the workload, its settings and its
device. Each run of the PyTorch release of --python is repeated on a phantom GPU, with the history and with the recorder at once, so both
see the same process. Allocations and frees must agree in order, address and size in bytes of the block, per device; segments must agree
in their sum of bytes, and peaks to the byte. Exit code 1: something differs.

With --real, the runs use this machine's GPU: each workload with each of its settings, one GPU, and the GPU's own memory.
"""

import argparse
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

csv.field_size_limit(1 << 30)


def rows(vramscope, file):
    text = subprocess.run([vramscope, "export", file, "--format", "csv"], check=True, capture_output=True, text=True)
    return list(csv.DictReader(io.StringIO(text.stdout)))


def events(rows, freed):
    """Allocations and frees by device: address, and block bytes of allocations."""
    out = {}
    for row in rows:
        if row["action"] == "alloc":
            out.setdefault(row["device"], []).append(("alloc", row["address"], int(row["block_bytes"])))
        elif row["action"] == freed:
            out.setdefault(row["device"], []).append(("free", row["address"], None))
    return out


def until(rows, freed, count):
    """The rows up to the allocation or free number `count`, of all devices: the history ends before the process does."""
    for index, row in enumerate(rows):
        count -= row["action"] in ("alloc", freed)
        if count == 0:
            return rows[: index + 1]
    return rows


def segments(rows):
    """Bytes of segments by device and action, and the highest allocated and reserved bytes."""
    out = {}
    for row in rows:
        if row["action"].startswith("segment_"):
            key = (row["device"], row["action"])
            out[key] = out.get(key, 0) + int(row["size_bytes"])
        for quantity in ("allocated_bytes", "reserved_bytes"):
            key = (row["device"], quantity)
            out[key] = max(out.get(key, 0), int(row[quantity] or 0))
    return out


def compare(vramscope, history, log):
    """The number of allocations and frees, and what differs, in words."""
    history, log = rows(vramscope, history), rows(vramscope, log)
    count = sum(map(len, events(history, "free_requested").values()))
    history, log = until(history, "free_requested", count), until(log, "free", count)
    theirs, ours = events(history, "free_requested"), events(log, "free")
    differences = []
    for device in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(device, []), ours.get(device, [])
        first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
        if first is not None:
            differences.append(f"device {device}: event {first} is {a[first]} in the history, {b[first]} in the log")
        elif len(a) != len(b):
            differences.append(f"device {device}: {len(a)} events in the history, {len(b)} in the log")
    a, b = segments(history), segments(log)
    for key in sorted(a.keys() | b.keys()):
        if a.get(key, 0) != b.get(key, 0):
            differences.append(f"{key}: {a.get(key, 0)} in the history, {b.get(key, 0)} in the log")
    return count, differences


PROGRAMS = pathlib.Path(__file__).parents[2] / "vramscope-phantom" / "programs"


def repeat(run, arguments, folder):
    """Run a workload with the history and with the recorder, and compare both."""
    history, log = folder / "history.pickle", folder / "run.vramscope"
    recorder = [arguments.vramscope, "run", "--record", log, "--"]
    program = [arguments.python, PROGRAMS / f"{run['name']}.py", "--iterations", str(run["iters"])]
    if arguments.real:
        command = [*recorder, *program, "--record", history]
    else:
        command = [arguments.vramscope, "phantom", "run", "--once", "--record", history]
        command += ["--gpus", str(2 if run["name"] == "two_gpus" else 1), "--memory", str(run["device_capacity"])]
        command += ["--context", str(run["device_capacity"] - run["device_free_at_start"]), "--", *recorder, *program]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": run["conf"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if not history.exists() or not log.exists():
        return 0, [f"no recording: {done.stderr[-300:]}"]
    return compare(arguments.vramscope, history, log)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=pathlib.Path)
    parser.add_argument("--vramscope", default="vramscope", help="the command")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--real", action="store_true", help="use this machine's GPU")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the recordings in this folder")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--only", default="", help="only the runs whose name contains this")
    arguments = parser.parse_args()

    release = subprocess.run(
        [arguments.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    runs = [json.loads(line) for line in arguments.truth.read_text().splitlines()]
    runs = [run for run in runs if run["torch"] == release and arguments.only in run["file"]]
    if arguments.real:
        runs = list({(run["name"], run["conf"]): run for run in reversed(runs) if run["name"] != "two_gpus"}.values())

    def one(run):
        with tempfile.TemporaryDirectory() as folder:
            folder = arguments.keep / pathlib.Path(run["file"]).stem if arguments.keep else pathlib.Path(folder)
            folder.mkdir(parents=True, exist_ok=True)
            return run, *repeat(run, arguments, folder)

    equal = total = 0
    for run, count, differences in concurrent.futures.ThreadPoolExecutor(arguments.jobs).map(one, runs):
        equal, total = equal + (not differences), total + count
        name = run["file"].removesuffix(".pickle")
        print(f"{name}: {count} allocations and frees, {'; '.join(differences) or 'equal'}", flush=True)
    print(f"{equal} of {len(runs)} runs equal on PyTorch {release}, {total} allocations and frees")
    sys.exit(equal != len(runs))


if __name__ == "__main__":
    main()
