"""Run PyTorch's own tests of `torch.cuda.MemPool` with another allocator on the segments of vramscope's pool.

    program.py PYTORCH/test/test_cuda.py           prints the names of the tests, as JSON
    program.py PYTORCH/test/test_cuda.py NAME      runs a test; its last line is passed, skipped or failed

The `get_dummy_allocator` of the tests compiles an allocator that calls cudaMallocManaged. Here, it returns one that calls the pool's
functions instead, in the checking mode.
"""

import ctypes
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import vramscope.torch
from vramscope._native import TorchPool

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


def get_dummy_allocator():
    """The pool's functions behind the names that the tests look for."""
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


def main(path, name=None):
    module = load(pathlib.Path(path).resolve())
    if name is None:
        return print(json.dumps(unittest.defaultTestLoader.getTestCaseNames(module.TestMemPool)))
    module.TestMemPool.get_dummy_allocator = lambda self, check_vars=True: get_dummy_allocator()
    result = unittest.TextTestRunner(stream=sys.stderr).run(unittest.TestSuite([module.TestMemPool(name)]))
    print("skipped" if result.skipped else "passed" if result.wasSuccessful() else "failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
