"""A recorder's log has the events of PyTorch's own history of the same run.

Each recorded run of this release of PyTorch is repeated on a phantom GPU, with the history and with the recorder at once, so both see the
same process. Allocations and frees must agree in order, address and size in bytes of the block, per device; segments must agree in their
sum of bytes, and peaks to the byte. With --real, the runs use this machine's GPU: each workload with each of its settings, one GPU, and the
GPU's own memory.
"""

import concurrent.futures
import csv
import io
import pathlib
import tempfile

from common import GPUS, WORKLOADS, Failed, recorded_runs

csv.field_size_limit(1 << 30)

NEEDS = ("recordings",)
MINUTES = 0
IN_TEST = "by hand"


def options(parser):
    """Adds the options of this check."""
    parser.add_argument("--real", action="store_true", help="use this machine's GPU")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the recordings in this folder")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")


def check(run):
    """Compares each run; a row has the number of its allocations and frees."""
    runs = recorded_runs(run)
    if run.options.real:
        runs = list({(each["name"], each["conf"]): each for each in reversed(runs) if each["name"] not in GPUS}.values())

    def one(each):
        name = each["file"].removesuffix(".pickle")
        with tempfile.TemporaryDirectory() as folder:
            folder = run.options.keep / name if run.options.keep else pathlib.Path(folder)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                count, wrong = repeated(run, each, folder)
            except Failed as error:
                return name, [str(error)]
        return f"{name}: {count} allocations and frees", wrong

    yield from concurrent.futures.ThreadPoolExecutor(run.options.jobs).map(one, runs)


def repeated(run, recorded, folder):
    """Runs a workload with the history and with the recorder, and compares both."""
    history, log = folder / "history.pickle", folder / "run.vramscope"
    recorder = ["run", "--record", log, "--"]
    program = [run.python, WORKLOADS / f"{recorded['name']}.py", "--iterations", recorded["iters"]]
    words = [*recorder, *program, "--record", history]
    if not run.options.real:
        context = recorded["device_capacity"] - recorded["device_free_at_start"]
        card = ["--gpus", GPUS.get(recorded["name"], 1), "--memory", recorded["device_capacity"], "--context", context]
        words = ["phantom", "run", "--once", "--record", history, *card, "--", run.vramscope, *recorder, *program]
    done = run.command(*words, codes=range(256), seconds=300, PYTORCH_CUDA_ALLOC_CONF=recorded["conf"])
    if not history.exists() or not log.exists():
        raise Failed(f"no recording: {done.stderr[-300:]}")
    return compared(run, history, log)


def compared(run, history, log):
    """The number of allocations and frees, and what differs."""
    history, log = rows(run, history), rows(run, log)
    count = sum(map(len, events(history, "free_requested").values()))
    history, log = until(history, "free_requested", count), until(log, "free", count)
    theirs, ours = events(history, "free_requested"), events(log, "free")
    wrong = []
    for device in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(device, []), ours.get(device, [])
        first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
        if first is not None:
            wrong.append(f"device {device}: event {first} is {a[first]} in the history, {b[first]} in the log")
        elif len(a) != len(b):
            wrong.append(f"device {device}: {len(a)} events in the history, {len(b)} in the log")
    a, b = segments(history), segments(log)
    for key in sorted(a.keys() | b.keys()):
        if a.get(key, 0) != b.get(key, 0):
            wrong.append(f"{key}: {a.get(key, 0)} in the history, {b.get(key, 0)} in the log")
    return count, wrong


def rows(run, file):
    """The events of a recording."""
    return list(csv.DictReader(io.StringIO(run.command("export", file, "--format", "csv", codes=(0,)).stdout)))


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
