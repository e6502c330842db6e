"""Explains out-of-memory errors from their text alone."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from vramscope._native import explain_text

if TYPE_CHECKING:
    from types import TracebackType


def explain(error: BaseException | str) -> str:
    """Says why an out-of-memory error happened, as far as its text shows it, and what to do next.

    Args:
        error: The exception, or a text such as the log of a job. Errors of PyTorch, CuPy, JAX, TensorFlow and other
            programs are known.
    """
    if isinstance(error, str):
        return explain_text(error)
    return explain_text("".join(traceback.format_exception(type(error), error, error.__traceback__)))


def explain_errors() -> None:
    """Prints this explanation below each later out-of-memory error that ends the program, or a cell of IPython."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        before(kind, error, at)
        _print(error)

    sys.excepthook = hook
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        show = shell.showtraceback

        def showtraceback(*args: object, **kwargs: object) -> None:
            show(*args, **kwargs)
            error = sys.exc_info()[1]
            if error is not None:
                _print(error)

        shell.showtraceback = showtraceback


def _print(error: BaseException) -> None:
    text = explain(error)
    if "Out of memory" in text:
        print(f"\n{text}", file=sys.stderr)
