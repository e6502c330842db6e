"""See, explain and fix GPU memory.

What a program imports is listed here; nothing of PyTorch, CuPy or a notebook is imported before it is asked for.
"""

from vramscope._native import ReadError, VramscopeError, __version__

__all__ = ["ReadError", "VramscopeError", "__version__"]
