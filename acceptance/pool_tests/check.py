"""PyTorch's own tests of `torch.cuda.MemPool` pass with the segments of vramscope's pool.

--tests names test/test_cuda.py of PyTorch's repository, of the release that the Python has: wheels have no tests. Each test runs in a process
of its own.
"""

import json
import os
import pathlib

from common import ROOT, WORKLOADS, Failed

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ("package", "cc")
MINUTES = 0
IN_TEST = "by hand"

PASS = [
    "test_deleted_mempool_not_used_on_oom",
    "test_mempool_empty_cache_inactive",
    "test_mempool_expandable",
    "test_mempool_limited_memory_with_allocator",
    "test_mempool_with_allocator",
    "test_tensor_delete_after_allocator_delete",
]
OWN_SEGMENTS = "its pools have no other allocator, so that no function of the pool is called"
LEFT_OUT = {
    "test_graph_capture_reclaim_2_streams": OWN_SEGMENTS,
    "test_graph_capture_reclaim_4_streams": OWN_SEGMENTS,
    "test_mempool_ctx_multithread": OWN_SEGMENTS,
    "test_mempool_empty_cache": OWN_SEGMENTS,
    "test_mempool_emptycache_multithread": OWN_SEGMENTS,
    "test_mempool_id": OWN_SEGMENTS,
    "test_mempool_multithread": OWN_SEGMENTS,
    "test_mempool_no_split": OWN_SEGMENTS,
    "test_nested_mempool": OWN_SEGMENTS,
}


def options(parser):
    """Adds the options of this check."""
    parser.add_argument("--tests", required=True, metavar="FILE", help="test/test_cuda.py of PyTorch's repository")


def check(run):
    """Runs each test."""
    (names,) = results(run)
    names = json.loads(names)
    yield f"not in this release: {', '.join(sorted({*PASS, *LEFT_OUT} - {*names})) or 'none'}", []
    for name in filter(run.is_chosen, names):
        if name in LEFT_OUT:
            yield f"{name} is left out: {LEFT_OUT[name]}", []
            continue
        try:
            result = results(run, name)[-1]
        except Failed as error:
            result = f"failed: {error}"
        wrong = [] if result == "passed" else [result]
        yield name, wrong if name in PASS else [*wrong, "it is in no table of this check"]


def results(run, *name):
    """The lines that the program prints."""
    path = os.pathsep.join([str(ROOT / "python"), str(WORKLOADS)])
    done = run.phantom(PROGRAM, run.options.tests, *name, seconds=300, PYTHONPATH=path)
    return [line for line in done.stdout.splitlines() if line in ("passed", "skipped", "failed") or line.startswith("[")] or ["crashed"]
