"""The memory of CuPy's pool by source line."""

from vramscope._line_profile import LineReport
from vramscope.cupy._memory_hook import MemoryHook


class LineProfileHook(LineReport, MemoryHook):
    """Counts pool memory by source line: `cupy.cuda.memory_hooks.LineProfileHook`.

    The report matches CuPy's character for character; stacks are captured and counted in compiled code. Counting
    follows CuPy too: failed requests count as used, each attempt to allocate from the device counts as acquired, and
    frees do not count.

    Args:
        max_depth: The number of levels to print, including the root; 0 prints all levels.
    """

    name = "LineProfileHook"
