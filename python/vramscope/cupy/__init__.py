"""CuPy's memory pool: hooks under CuPy's names, recordings of its history, and a virtual pool that needs no GPU.

To switch, import the hooks from here instead of from `cupy.cuda`; nothing else changes. CuPy itself is imported when
a hook is registered or a recording begins.
"""

from vramscope._line_profile import Line
from vramscope._native import OutOfMemoryError, VirtualDevice, VirtualPool
from vramscope.cupy._debug_print import DebugPrintHook
from vramscope.cupy._history import PoolRecording, record
from vramscope.cupy._line_profile import LineProfileHook
from vramscope.cupy._memory_hook import MemoryHook

__all__ = [
    "DebugPrintHook",
    "Line",
    "LineProfileHook",
    "MemoryHook",
    "OutOfMemoryError",
    "PoolRecording",
    "VirtualDevice",
    "VirtualPool",
    "record",
]
