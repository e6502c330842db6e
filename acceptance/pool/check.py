"""vramscope's pool as PyTorch's allocator serves every request as PyTorch's own does, event by event.

Each workload runs on phantom GPUs, with default settings and with expandable segments: once with PyTorch's recorded history, and
once with `vramscope.torch.use_pool` and the pool's history. Every event has to have the same action, size and stream, and the same
place: the number of its segment in the order of their creation, and the offset in this segment. The counters of measure.py have to be
equal too. Then it runs with a plan that `vramscope plan` makes from the default run, in the checking mode. It has to reserve as much as
the replay of the plan predicts, and all its requests have to be at their places. A workload on several streams also runs with a plan whose
streams share memory. A row has the events, the segments, the reserved bytes, and these as a part of the bytes in use.
"""

import os
import pathlib
import pickle
import shutil
import tempfile

from common import MODULES, ROOT, WORKLOADS, objects

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ("package",)
MINUTES = 0
IN_TEST = "every release"

COMPARED = ["mlp", "churn", "leak", "streams", "lora", "gpt2", "resnet50", "generate", "two_gpus"]
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
ARGUMENTS = {"resnet50": ["--iterations", "2"]}
# A file has the plan of one device.
WITHOUT_PLAN = ["two_gpus"]
# These also run with a plan whose streams share memory.
OF_SEVERAL_STREAMS = ["streams"]


def check(run):
    """Compares the runs of each workload."""
    for workload in filter(run.is_chosen, COMPARED):
        if missing := [module for module in MODULES.get(workload, []) if not run.has(module)]:
            print(f"  {workload} is left out, because {' and '.join(missing)} is missing")
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, wrong, events, counted in runs(run, workload, pathlib.Path(folder)):
                segments = sum(event[0] in ("segment_alloc", "segment_map") for event in events)
                reserved, part = counted["peak_reserved"], counted["peak_reserved"] / counted["peak_active"]
                yield f"{workload:<10}{name:<12}{len(events):>8,}{segments:>8,}{reserved >> 20:>8,} MiB{part:>10.3f}", wrong


def runs(run, workload, folder):
    """The runs of a workload: the settings, the differences, the events and the counters."""
    for name, conf in SETTINGS.items():
        theirs, expected = recorded(run, workload, folder, "torch", conf)
        ours, found = recorded(run, workload, folder, "pool", conf)
        wrong = differences(theirs, ours)
        wrong += [f"{key} is {found[key]}, not {expected[key]}" for key in expected if found[key] != expected[key]]
        yield name, wrong, theirs, expected
        if name == "default" and workload not in WITHOUT_PLAN:
            shutil.copyfile(folder / "run.pickle", folder / "default.pickle")
            yield "plan", *planned(run, workload, folder)
            if workload in OF_SEVERAL_STREAMS:
                yield "shared", *planned(run, workload, folder, "--share-streams")


def planned(run, workload, folder, *options):
    """The differences of a run with a plan from its prediction, its events and its counters."""
    words = ["plan", folder / "default.pickle", "--output", folder / "run.plan", "--json", "--device", "0", *options]
    predicted = run.json(*words, codes=(0,))["devices"][0]["plan"]
    events, found = recorded(run, workload, folder, "plan", "")
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


def recorded(run, workload, folder, allocator, conf):
    """The events and the counters of a run. The snapshot stays in the folder."""
    done = run.phantom(
        *(PROGRAM, allocator, folder, WORKLOADS / f"{workload}.py", "--one-thread", *ARGUMENTS.get(workload, [])),
        options=["--gpus", "2"],
        codes=(0,),
        PYTORCH_CUDA_ALLOC_CONF=conf,
        VRAMSCOPE_PHANTOM_ADDRESSES="rising",
        PYTHONPATH=os.pathsep.join([str(ROOT / "python"), str(WORKLOADS)]),
    )
    counters = {}
    for each in objects(done.stdout):
        counters |= each
    with (folder / "run.pickle").open("rb") as file:
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
