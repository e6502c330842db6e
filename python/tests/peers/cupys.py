"""A pytest plugin that runs CuPy's own memory hook tests on vramscope's hooks.

CuPy's names resolve to vramscope's classes, and its pools use made-up addresses, so the tests need no GPU.
"""

import cupy.cuda.memory
import cupy.cuda.memory_hook
import cupy.cuda.memory_hooks
import vramscope.cupy
from cupy_pool import Device, pool_on

MemoryPool = cupy.cuda.memory.MemoryPool

for name in ("LineProfileHook", "DebugPrintHook"):
    setattr(cupy.cuda.memory_hooks, name, getattr(vramscope.cupy, name))
cupy.cuda.memory_hook.MemoryHook = cupy.cuda.MemoryHook = vramscope.cupy.MemoryHook


def pool(*arguments):
    """Creates a CuPy pool, on its own device by default."""
    if arguments:
        return MemoryPool(*arguments)
    cupy.cuda.memory.MemoryPool = MemoryPool
    try:
        return pool_on(Device())
    finally:
        cupy.cuda.memory.MemoryPool = pool


cupy.cuda.memory.MemoryPool = pool


def pytest_configure(config):
    # A marker that CuPy's tests use.
    config.addinivalue_line("markers", "thread_unsafe: not for several threads")
