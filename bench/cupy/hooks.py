"""What an event of CuPy's pool costs under CuPy's LineProfileHook and under vramscope's, in one run.

    PYTHONPATH=python:python/tests CUPY_PYTHON bench/cupy/hooks.py

CUPY_PYTHON is a Python with CuPy (`./test --cupy` makes one in target/cupy). The native part of the package is to be a release
build. Each figure is the median of several rounds of what a request adds to the request alone, divided by its events: a request that
the pool serves from its cache calls LineProfileHook once.
"""

import functools
import statistics
import sys
import tempfile
import time

from cupy.cuda import memory_hooks
from cupy_pool import Device, pool_on

from vramscope.cupy import LineProfileHook


def deepened(function, depth, folder):
    """A function that calls `function` at this depth of the stack, through functions in files of their own."""
    for i in range(depth - 3):
        name = f"{folder}/file{i}.py"
        with open(name, "w") as file:
            file.write("def call():\n    return function()\n")
        variables = {"function": function}
        with open(name) as file:
            exec(compile(file.read(), name, "exec"), variables)  # noqa: S102
        function = variables["call"]
    return function


def seconds(pool, events):
    """Time of so many requests from the cache, each at another position in the program."""
    malloc = pool.malloc
    begin = time.perf_counter()
    for _ in range(events // 2):
        malloc(512)
        malloc(512)
    return time.perf_counter() - begin


def main():
    rounds = 7
    print("stack depth    CuPy's     vramscope's   ratio")
    for depth in (5, 20, 50, 100):
        pool = pool_on(Device())
        pool.malloc(512)
        micro = {}
        for hook, events in ((memory_hooks.LineProfileHook, 200), (LineProfileHook, 20_000)):
            times = []
            with tempfile.TemporaryDirectory() as folder:
                measure = deepened(functools.partial(seconds, pool, events), depth, folder)
                for _ in range(rounds):
                    alone = measure()
                    with hook():
                        hooked = measure()
                    times.append((hooked - alone) / events * 1e6)
            micro[hook] = statistics.median(times)
        theirs, ours = micro.values()
        print(f"{depth:11} {theirs:9.1f} us {ours:12.2f} us {theirs / ours:6.0f}")
    print(sys.version.split()[0])


if __name__ == "__main__":
    main()
