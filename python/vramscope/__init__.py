"""See, explain and fix GPU memory.

What a program imports is listed here; nothing of PyTorch, CuPy or a notebook is imported before it is asked for.
"""

from vramscope._native import ReadError, Recording, Table, VramscopeError, __version__
from vramscope._recording import read

__all__ = ["ReadError", "Recording", "Table", "VramscopeError", "__version__", "read", "serve"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vramscope._live import serve

_LATER = {"serve": "vramscope._live"}
"""Names that are imported when they are first asked for, and the modules that have them."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
