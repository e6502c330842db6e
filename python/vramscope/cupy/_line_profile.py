"""Memory of CuPy's pool by line of the program."""

from vramscope._line_profile import LineReport
from vramscope.cupy._memory_hook import MemoryHook


class LineProfileHook(LineReport, MemoryHook):
    """Which line used how much memory: `cupy.cuda.memory_hooks.LineProfileHook`.

    The report is CuPy's to the letter; stacks are captured and counted in compiled code. It also counts as CuPy
    does: requests that fail count as used, each attempt to take memory from the device counts as acquired, and frees do
    not count.

    Args:
        max_depth: The number of levels that are printed, the root among them; 0 is no bound.
    """

    name = "LineProfileHook"
