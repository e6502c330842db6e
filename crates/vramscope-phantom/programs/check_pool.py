"""Run the workloads of this folder under PyTorch's allocator and under vramscope's pool, and compare them event by event.

    check_pool.py --vramscope target/debug/vramscope --python PYTHON

Each workload runs on a phantom GPU, with default settings and with expandable segments: once with PyTorch's recorded history, and
once with `vramscope.torch.use_pool` and the pool's history. Every event has to have the same action, size and stream, and the same
place: the number of its segment in the order of their creation, and the offset in this segment. The counters of measure.py have to be
equal too. Prints a row for each run, and exits with 1 if any run differs.

PYTHON has PyTorch, and PYTHONPATH the package vramscope.
"""

import argparse
import json
import os
import pathlib
import pickle
import runpy
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
WORKLOADS = ["mlp", "churn", "streams", "lora", "gpt2", "resnet50", "generate", "two_gpus"]
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
ARGUMENTS = {"resnet50": ["--iterations", "2"]}
SECONDS = 900


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", default="", help="only the workloads whose name contains this")
    arguments = parser.parse_args()
    differ = False
    print(f"{'workload':<12} {'settings':<12} {'events':>8} {'segments':>9} {'peak reserved':>14}  result")
    for workload in WORKLOADS:
        if arguments.only not in workload:
            continue
        for name, conf in SETTINGS.items():
            (theirs, expected), (ours, found) = (run(arguments, workload, conf, by) for by in ("torch", "pool"))
            wrong = differences(theirs, ours)
            wrong += [f"{key} is {found[key]}, not {expected[key]}" for key in expected if found[key] != expected[key]]
            differ |= bool(wrong)
            segments = sum(event[0] in ("segment_alloc", "segment_map") for event in theirs)
            peak = f"{expected['peak_reserved'] / (1 << 20):,.0f} MiB"
            result = "; ".join(wrong) or "equal"
            print(f"{workload:<12} {name:<12} {len(theirs):>8,} {segments:>9,} {peak:>14}  {result}", flush=True)
    sys.exit(differ)


def run(arguments, workload, conf, allocator):
    """The events and the counters of a run."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.pickle"
        command = [arguments.vramscope, "phantom", "run", "--once", "--gpus", "2", "--"]
        command += [arguments.python, __file__, "--inside", allocator, str(path), str(FOLDER / f"{workload}.py")]
        command += ["--one-thread", *ARGUMENTS.get(workload, [])]
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf, "VRAMSCOPE_PHANTOM_ADDRESSES": "rising"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, f"{workload} under {allocator}: {done.stderr[-2000:]}"
        counters = next(json.loads(line) for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
        with path.open("rb") as file:
            traces = pickle.load(file)["device_traces"]
    return [event for trace in traces for event in placed(trace)], counters


def placed(trace):
    """The events of a device, each with its place relative to its segment: action, segment, offset, size, stream."""
    segments = []
    for event in trace:
        action, address, size, stream = event["action"], event.get("addr", 0), event["size"], event["stream"]
        if action == "snapshot":
            continue
        if action in ("segment_alloc", "segment_map"):
            # Pages that continue a segment belong to it.
            known = next((s for s in segments if action == "segment_map" and s[2] and s[0] <= address <= s[1]), None)
            if known:
                known[1] = max(known[1], address + size)
            else:
                segments.append([address, address + size, action == "segment_map"])
        if action == "oom":
            yield action, None, None, size, stream
            continue
        holds = (i for i in reversed(range(len(segments))) if segments[i][0] <= address < segments[i][1])
        segment = next(holds)
        yield action, segment, address - segments[segment][0], size, stream


def differences(theirs, ours):
    """The first event that differs, in words. Streams are compared by the order of their first use."""
    theirs, ours = numbered(theirs), numbered(ours)
    for index, (expected, found) in enumerate(zip(theirs, ours)):
        if expected != found:
            return [f"event {index} is {found}, not {expected}"]
    return [] if len(theirs) == len(ours) else [f"{len(ours)} events, not {len(theirs)}"]


def numbered(events):
    streams = {0: 0}
    return [(*event[:4], streams.setdefault(event[4], len(streams))) for event in events]


def inside(allocator, path, program, *arguments):
    """Run a workload in this process, and write the recorded history."""
    import torch

    if allocator == "pool":
        import vramscope.torch

        pool = vramscope.torch.use_pool()
        pool.record_history()
        dump = pool.dump_snapshot
    else:
        torch.cuda.memory._record_memory_history(context=None)
        dump = torch.cuda.memory._dump_snapshot
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(FOLDER))
    runpy.run_path(program, run_name="__main__")
    dump(path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    else:
        main()
