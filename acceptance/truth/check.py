"""PyTorch's counters on phantom GPUs equal those of recorded runs.

Each recorded run of this release of PyTorch is repeated: the workload, its allocator settings and its device. Every counter must be equal.

Unlike a GPU, the recorded runs had one cuBLAS handle for all threads and devices, no cuBLASLt, and addresses that rise without gaps. So
the programs run with --one-thread, DISABLE_ADDMM_CUDA_LT=1 and VRAMSCOPE_PHANTOM_ADDRESSES=rising, which makes unmodified PyTorch take
the same memory on the first device. The counters are those of the first device. A second device has its own workspace, which the recorded
runs lack.
"""

from common import GPUS, WORKLOADS, Failed, objects, recorded_runs

NEEDS = ("recordings",)
MINUTES = 0
IN_TEST = "every release"

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


def check(run):
    """Repeats the recorded runs."""
    runs = recorded_runs(run)
    if not runs and not run.only:
        yield f"there is no recorded run of PyTorch {run.release}", []
    for each in runs:
        yield each["file"].removesuffix(".pickle"), differences(run, each)


def differences(run, recorded):
    """Repeats a run; returns every counter that differs."""
    try:
        counted = repeat(run, recorded)
    except Failed as error:
        return [str(error)]
    wrong = [f"{name} is {counted[name]}, not {recorded[name]}" for name in COUNTERS if counted[name] != recorded[name]]
    text, expected = (oom and oom.partition(LAST_WORDS)[0] for oom in (counted["oom"], recorded["oom"]))
    if text != expected:
        wrong.append(f"the error is {text!r}, not {expected!r}")
    return wrong


def repeat(run, recorded):
    """The counters of a run's workload, under its settings and on its device."""
    context = recorded["device_capacity"] - recorded["device_free_at_start"]
    card = ["--gpus", GPUS.get(recorded["name"], 1), "--memory", recorded["device_capacity"], "--context", context]
    done = run.phantom(
        WORKLOADS / f"{recorded['name']}.py",
        "--one-thread",
        *["--iterations", recorded["iters"]],
        *(["--warm-up", 1] if recorded["file"].endswith("-late.pickle") else []),
        options=card,
        # The command exits with 1 if a program does not fit.
        codes=(0, 1) if recorded["oom"] else (0,),
        seconds=120,
        PYTORCH_CUDA_ALLOC_CONF=recorded["conf"],
        DISABLE_ADDMM_CUDA_LT="1",
        VRAMSCOPE_PHANTOM_ADDRESSES="rising",
    )
    # The command prints an object of its own only with --json; the counters come last.
    return objects(done.stdout)[-1]
