"""CuPy's memory pool: hooks under CuPy's names, recordings of its history, and a virtual pool that needs no GPU.

`use_pool` makes vramscope's pool CuPy's allocator, which PyTorch may share.

To switch, import the hooks from here instead of from `cupy.cuda`; nothing else changes. CuPy itself is imported when
a hook is registered or a recording begins.
"""

from vramscope._line_profile import Line
from vramscope._native import OutOfMemoryError, VirtualDevice, VirtualPool
from vramscope.cupy._debug_print import DebugPrintHook
from vramscope.cupy._history import PoolRecording, record
from vramscope.cupy._line_profile import LineProfileHook
from vramscope.cupy._memory_hook import MemoryHook
from vramscope.cupy._pool import Pool, use_pool

__all__ = [
    "DebugPrintHook",
    "Line",
    "LineProfileHook",
    "MemoryHook",
    "OutOfMemoryError",
    "Pool",
    "PoolRecording",
    "VirtualDevice",
    "VirtualPool",
    "record",
    "use_pool",
]
