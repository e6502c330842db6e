"""See, explain and fix GPU memory.

What a program imports is listed here; nothing of PyTorch, CuPy or a notebook is imported before it is asked for.
"""

from vramscope._native import ReadError, Recording, Table, VramscopeError, __version__
from vramscope._recording import read

__all__ = ["ReadError", "Recording", "Table", "VramscopeError", "__version__", "read"]
