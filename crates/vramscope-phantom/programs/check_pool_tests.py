"""Run PyTorch's own tests of `torch.cuda.MemPool` with another allocator on the segments of vramscope's pool.

    vramscope phantom run --once -- python check_pool_tests.py PYTORCH/test/test_cuda.py

The file is that of PyTorch's repository, of the release that `python` has: wheels have no tests. Each test runs in a process of its own.
Its `get_dummy_allocator` compiles an allocator that calls cudaMallocManaged. Here, it returns one that calls the pool's functions instead,
in the checking mode. Prints a line for each test, and exits with 1 if a result differs from the tables below.

PYTHONPATH has the package vramscope. The C compiler is `cc`.
"""

import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

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
SOURCE = """
#include <stddef.h>
#include <sys/types.h>
int called_dummy_alloc = 0;
int called_dummy_free = 0;
void* (*pool_malloc)(size_t, int, void*);
void (*pool_free)(void*, size_t, int, void*);
void* dummy_alloc(size_t size, int device, void* stream) {
    called_dummy_alloc = 123;
    return pool_malloc(size, device, stream);
}
void dummy_free(void* address, size_t size, int device, void* stream) {
    called_dummy_free = 321;
    pool_free(address, size, device, stream);
}
"""


def load(path):
    sys.path[:0] = [str(path.parent)]
    spec = importlib.util.spec_from_file_location("test_cuda", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_cuda"] = module
    spec.loader.exec_module(module)
    return module


def get_dummy_allocator(check_vars):
    """The pool's functions behind the names that the tests look for."""
    import torch

    import vramscope.torch
    from vramscope._native import TorchPool

    vramscope.torch.segment_allocator(check=True)
    functions = TorchPool.functions()
    folder = pathlib.Path(tempfile.mkdtemp())
    source, library = folder / "dummy.c", folder / "dummy.so"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    for name in ("malloc", "free"):
        ctypes.c_void_p.in_dll(loaded, f"pool_{name}").value = functions[name]
    return torch.cuda.memory.CUDAPluggableAllocator(str(library), "dummy_alloc", "dummy_free"), str(library)


def one(path, name):
    module = load(path)
    module.TestMemPool.get_dummy_allocator = lambda self, check_vars=True: get_dummy_allocator(check_vars)
    result = unittest.TextTestRunner(stream=sys.stderr).run(unittest.TestSuite([module.TestMemPool(name)]))
    print("skipped" if result.skipped else "passed" if result.wasSuccessful() else "failed")


def main(path):
    names = unittest.defaultTestLoader.getTestCaseNames(load(path).TestMemPool)
    failed = False
    for name in names:
        if name in LEFT_OUT:
            print(f"{name:<45}left out: {LEFT_OUT[name]}", flush=True)
            continue
        command = [sys.executable, __file__, str(path), name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
        result = (done.stdout.splitlines() or ["crashed"])[-1]
        print(f"{name:<45}{result}", flush=True)
        if result != "passed" or name not in PASS:
            failed = True
            print(done.stderr[-3000:], flush=True)
    missing = [name for name in [*PASS, *LEFT_OUT] if name not in names]
    print(f"not in this release: {', '.join(missing) or 'none'}")
    sys.exit(failed)


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:]:
        one(path, sys.argv[2])
    else:
        main(path)
