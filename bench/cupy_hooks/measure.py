"""Measures the cost of an event of CuPy's pool with CuPy's LineProfileHook and with vramscope's, in one run.

    bench/run.py cupy_hooks

Each function of the stack is in a separate file, as is usual for libraries. The numbers
are medians of several rounds, in microseconds:

- an event is one call of the hook alone;
- a request is the hook's overhead on `malloc` and the free of its block, served from the pool's cache: one event, three calls of
  empty callbacks, and CuPy's work to call them.
"""

import functools
import statistics
import sys
import tempfile
import time

from cupy.cuda import memory_hooks
from cupy_pool import Device, pool_on

from vramscope.cupy import LineProfileHook

ROUNDS = 9


def deepened(function, depth, folder):
    """A function that calls `function` at this depth of the stack, through functions in separate files."""
    for i in range(depth - 3):
        name = f"{folder}/file{i}.py"
        with open(name, "w") as file:
            file.write("def call():\n    return function()\n")
        variables = {"function": function}
        with open(name) as file:
            exec(compile(file.read(), name, "exec"), variables)  # noqa: S102
        function = variables["call"]
    return function


def seconds_of_events(hook, events):
    callback = hook.malloc_preprocess
    begin = time.perf_counter()
    for _ in range(events):
        callback(device_id=0, size=512, mem_size=512)
    return time.perf_counter() - begin


def seconds_of_requests(pool, requests):
    malloc = pool.malloc
    begin = time.perf_counter()
    for _ in range(requests):
        malloc(512)
    return time.perf_counter() - begin


def main():
    pool = pool_on(Device())
    pool.malloc(512)
    print("                 an event                            a request")
    print("stack depth    CuPy's   vramscope's   ratio        CuPy's   vramscope's   ratio")
    for depth in (5, 20, 50, 100):
        event, request = [], []
        for kind, number in ((memory_hooks.LineProfileHook, 200), (LineProfileHook, 20_000)):
            with tempfile.TemporaryDirectory() as folder:
                hook = kind()
                measure = deepened(functools.partial(seconds_of_events, hook, number), depth, folder)
                event.append(statistics.median(measure() / number * 1e6 for _ in range(ROUNDS)))
                measure = deepened(functools.partial(seconds_of_requests, pool, number), depth, folder)
                times = []
                for _ in range(ROUNDS):
                    alone = measure()
                    with kind():
                        times.append((measure() - alone) / number * 1e6)
                request.append(statistics.median(times))
        cells = [f"{theirs:9.1f} {ours:13.2f} {theirs / ours:7.0f}" for theirs, ours in (event, request)]
        print(f"{depth:11} " + "     ".join(cells))
    print(sys.version.split()[0])


if __name__ == "__main__":
    main()
