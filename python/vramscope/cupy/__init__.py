"""CuPy's memory pool: its hooks, under CuPy's own names, its history as a recording, and its rules without a GPU.

A program that imports hooks from here and not from `cupy.cuda` needs no other change. CuPy itself is imported when a
hook is registered or a recording begins, and not before.
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
