"""Prints the cost of gpumemprof or of its successor stormlog as JSON; bench/profiler/measure.py runs it. It imports torch.py of this folder.

    cost.py PACKAGE calls
    cost.py PACKAGE monitor HZ SECONDS
"""
import gc, importlib, json, statistics, sys, time

import torch

BATCHES = 11
NOTHING = {"track_tensors": False, "track_cpu_memory": False, "collect_stack_traces": False}


def empty():
    pass


def calls(Profiler):
    """Nanoseconds of a profiled call of an empty function: medians of alternating batches."""
    options = {
        "default": ({}, 20),
        "nothing": (NOTHING, 500),
        "track_tensors": (NOTHING | {"track_tensors": True}, 20),
        "track_cpu_memory": (NOTHING | {"track_cpu_memory": True}, 200),
        "collect_stack_traces": (NOTHING | {"collect_stack_traces": True}, 200),
    }
    profilers = {name: (Profiler("cuda:0", **o), n) for name, (o, n) in options.items()}
    batches = {name: [] for name in options}
    for batch in range(BATCHES + 1):
        for name, (profiler, n) in profilers.items():
            start = time.perf_counter_ns()
            for _ in range(n):
                profiler.profile_function(empty)
            if batch:
                batches[name].append((time.perf_counter_ns() - start) / n)
            # Otherwise the search for tensors would include results of earlier calls.
            profiler.clear_results()
    medians = {name: statistics.median(b) for name, b in batches.items()}
    return {"profile_function_ns": medians, "objects": len(gc.get_objects())}


def cpu_over(seconds):
    """Processor time of this process and wall time, in seconds, while it sleeps."""
    cpu, start = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return time.process_time() - cpu, time.perf_counter() - start


def monitor(Profiler, hz, seconds):
    profiler = Profiler("cuda:0")
    idle, _ = cpu_over(seconds)
    profiler.start_monitoring(1 / hz)
    cpu, wall = cpu_over(seconds)
    profiler.stop_monitoring()
    return {"cpu_s": cpu, "idle_cpu_s": idle, "wall_s": wall, "samples": len(profiler.snapshots)}


assert torch.version.cuda and not hasattr(torch, "nn"), "this is not the stand-in"
package, what, *arguments = sys.argv[1:]
profiler = importlib.import_module(f"{package}.profiler").GPUMemoryProfiler
print(json.dumps({"calls": calls, "monitor": monitor}[what](profiler, *map(float, arguments))))
