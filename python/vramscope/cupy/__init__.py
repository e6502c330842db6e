"""Hooks on CuPy's memory pool: CuPy's own classes, under their names.

A program that imports them from here and not from `cupy.cuda` needs no other change. CuPy itself is imported when a
hook is registered, and not before.
"""

from vramscope.cupy._debug_print import DebugPrintHook
from vramscope.cupy._line_profile import LineProfileHook
from vramscope.cupy._memory_hook import MemoryHook

__all__ = ["DebugPrintHook", "LineProfileHook", "MemoryHook"]
