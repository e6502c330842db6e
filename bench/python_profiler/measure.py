"""Measures the cost of a profiled call, and that of gpumemprof or stormlog if installed, in the same run.

    bench/run.py python_profiler

Prints for each the overhead in microseconds for a function that allocates nothing: the median over rounds, minus the time
of the function alone. Prints the same inside three other profiled blocks. gpumemprof takes minutes.
"""

import importlib
import statistics
import time

import torch

import vramscope

CALLS, ROUNDS = 20, 7


def nothing() -> None:
    """The function that is profiled."""


def microseconds(call) -> float:
    """Median time of a call in microseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(times)


def measure(name: str, module) -> None:
    """Prints a row."""
    profiler = module.GPUMemoryProfiler()
    alone = microseconds(nothing)
    once = microseconds(lambda: profiler.profile_function(nothing)) - alone
    with profiler.profile_context("a"), profiler.profile_context("b"), profiler.profile_context("c"):
        nested = microseconds(lambda: profiler.profile_function(nothing)) - alone
    print(f"{name:<12} {once:8.0f} us a call {nested:8.0f} us inside of three blocks")


def main() -> None:
    """Measures the installed profilers."""
    keep = [torch.empty(1024, device="cuda") for _ in range(1000)]
    del keep[::2]
    measure("vramscope", vramscope)
    for name in ("gpumemprof", "stormlog"):
        try:
            measure(name, importlib.import_module(name))
        except ImportError as error:
            print(f"{name:<12} is not installed: {error}")


if __name__ == "__main__":
    main()
