"""A pytest plugin that runs CuPy's own tests of its memory hooks on ours.

CuPy's names lead to our classes, and its pools are on addresses that are made up, so that the tests need no GPU.
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
    """A pool of CuPy's, on a device of its own where nothing else is said."""
    if arguments:
        return MemoryPool(*arguments)
    cupy.cuda.memory.MemoryPool = MemoryPool
    try:
        return pool_on(Device())
    finally:
        cupy.cuda.memory.MemoryPool = pool


cupy.cuda.memory.MemoryPool = pool


def pytest_configure(config):
    # A mark of theirs.
    config.addinivalue_line("markers", "thread_unsafe: not for several threads")
