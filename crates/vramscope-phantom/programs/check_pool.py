"""Run the workloads of this folder under PyTorch's allocator and under vramscope's pool, and compare them event by event.

    check_pool.py --vramscope target/debug/vramscope --python PYTHON

Each workload runs on phantom GPUs, with default settings and with expandable segments: once with PyTorch's recorded history, and
once with `vramscope.torch.use_pool` and the pool's history. Every event has to have the same action, size and stream, and the same
place: the number of its segment in the order of their creation, and the offset in this segment. The counters of measure.py have to be
equal too. Then it runs with a plan that `vramscope plan` makes from the default run, in the checking mode. It has to reserve as much as
the replay of the plan predicts, and all its requests have to be at their places. A workload on several streams also runs with a plan whose
streams share memory. Prints a row for each run, and exits with 1 if any
fails.

PYTHON has PyTorch, and PYTHONPATH the package vramscope.
"""

import argparse
import json
import os
import pathlib
import pickle
import runpy
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
WORKLOADS = ["mlp", "churn", "leak", "streams", "lora", "gpt2", "resnet50", "generate", "two_gpus"]
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
ARGUMENTS = {"resnet50": ["--iterations", "2"]}
# A file has the plan of one device.
WITHOUT_PLAN = ["two_gpus"]
# These also run with a plan whose streams share memory.
OF_SEVERAL_STREAMS = ["streams"]
SECONDS = 900


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", default="", help="only the workloads whose name contains this")
    arguments = parser.parse_args()
    failed = False
    print(f"{'workload':<12}{'settings':<12}{'events':>8}{'segments':>10}{'reserved':>12}{'/ in use':>10}  result")
    for workload in WORKLOADS:
        if arguments.only not in workload:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, wrong, events, counted in runs(arguments, workload, pathlib.Path(folder)):
                failed |= bool(wrong)
                segments = sum(event[0] in ("segment_alloc", "segment_map") for event in events)
                reserved, part = counted["peak_reserved"], counted["peak_reserved"] / counted["peak_active"]
                row = f"{workload:<12}{name:<12}{len(events):>8,}{segments:>10,}{reserved >> 20:>8,} MiB{part:>10.3f}"
                print(f"{row}  {'; '.join(wrong) or 'equal'}", flush=True)
    sys.exit(failed)


def runs(arguments, workload, folder):
    """The runs of a workload: the settings, the differences, the events and the counters."""
    for name, conf in SETTINGS.items():
        theirs, expected = run(arguments, workload, folder, "torch", conf)
        ours, found = run(arguments, workload, folder, "pool", conf)
        wrong = differences(theirs, ours)
        wrong += [f"{key} is {found[key]}, not {expected[key]}" for key in expected if found[key] != expected[key]]
        yield name, wrong, theirs, expected
        if name == "default" and workload not in WITHOUT_PLAN:
            shutil.copyfile(folder / "run.pickle", folder / "default.pickle")
            yield "plan", *planned(arguments, workload, folder)
            if workload in OF_SEVERAL_STREAMS:
                yield "shared", *planned(arguments, workload, folder, "--share-streams")


def planned(arguments, workload, folder, *options):
    """The differences of a run with a plan from its prediction, its events and its counters."""
    plan = folder / "run.plan"
    command = [arguments.vramscope, "plan", folder / "default.pickle", "--output", plan, "--json", "--device", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    predicted = json.loads(done.stdout)["devices"][0]["plan"]
    events, found = run(arguments, workload, folder, "plan", "")
    served = found["plan_use"]
    wrong = []
    if found["peak_reserved"] != predicted["peak_reserved_bytes"]:
        wrong.append(f"reserved {found['peak_reserved']} bytes, not {predicted['peak_reserved_bytes']}")
    if found["plan_waits"] != predicted["waits"]:
        wrong.append(f"{found['plan_waits']} requests wait, not {predicted['waits']}")
    names = {"planned": "planned", "left": "left_to_allocator", "differing": "differing", "in_use": "in_use"}
    for name, key in names.items():
        expected = [predicted[key]["requests"], predicted[key]["bytes"]]
        if served[name] != expected:
            wrong.append(f"{name} are {served[name]}, not {expected}")
    return wrong, events, found


def run(arguments, workload, folder, allocator, conf):
    """The events and the counters of a run. The snapshot stays in the folder."""
    path = folder / "run.pickle"
    command = [arguments.vramscope, "phantom", "run", "--once", "--gpus", "2", "--"]
    command += [arguments.python, __file__, "--inside", allocator, str(folder), str(FOLDER / f"{workload}.py")]
    command += ["--one-thread", *ARGUMENTS.get(workload, [])]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf, "VRAMSCOPE_PHANTOM_ADDRESSES": "rising"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{workload} under {allocator}: {done.stderr[-2000:]}"
    counters = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            counters |= json.loads(line)
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
        if action == "oom":
            yield action, None, None, size, stream
            continue
        if action in ("segment_alloc", "segment_map"):
            # Pages that continue a segment belong to it.
            grows = (s for s in segments if action == "segment_map" and s["maps"] and s["start"] <= address <= s["end"])
            known = next(grows, None)
            if known:
                known["end"] = max(known["end"], address + size)
            else:
                segments.append({"start": address, "end": address + size, "maps": action == "segment_map"})
        # The newest segment at this address: the device may use the addresses of a freed segment again.
        newest = reversed(range(len(segments)))
        segment = next(i for i in newest if segments[i]["start"] <= address < segments[i]["end"])
        yield action, segment, address - segments[segment]["start"], size, stream


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


def inside(allocator, folder, program, *arguments):
    """Run a workload in this process, and write the recorded history."""
    import torch

    pool = None
    if allocator == "torch":
        torch.cuda.memory._record_memory_history(context=None)
    else:
        import vramscope.torch

        with_plan = allocator == "plan"
        plan = f"{folder}/run.plan" if with_plan else None
        pool = vramscope.torch.use_pool(plan=plan, check=with_plan)
        pool.record_history()
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(FOLDER))
    runpy.run_path(program, run_name="__main__")
    dump = pool.dump_snapshot if pool else torch.cuda.memory._dump_snapshot
    dump(f"{folder}/run.pickle")
    if allocator == "plan":
        print(json.dumps({"plan_use": pool.plan_use(), "plan_waits": pool.plan_waits()}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    else:
        main()
