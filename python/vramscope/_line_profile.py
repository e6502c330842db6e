"""The memory report by source line, shared by the hooks of CuPy and PyTorch."""

import sys
from typing import NamedTuple, TextIO

from vramscope import _arguments
from vramscope._native import LineProfile


class Line(NamedTuple):
    """A source line and its own allocations; lines that it called are counted separately."""

    filename: str
    """The source file."""
    lineno: int | None
    """The line number, from 1; None if the code has none."""
    name: str
    """The function, or `<module>`."""
    used_bytes: int
    """Total bytes requested from the pool."""
    acquired_bytes: int
    """Bytes that the pool took from the device for this line."""


class LineReport(LineProfile):
    """Counts memory by source line and prints the report."""

    def __init__(self, max_depth: int = 0) -> None:
        self._max_depth = max(0, min(_arguments.whole("max_depth", max_depth), sys.maxsize))

    def print_report(self, file: TextIO | None = None) -> None:
        """Writes the tree of source lines with `(used bytes, acquired bytes)`, each line below its caller.

        Args:
            file: The output; standard output by default.
        """
        file = sys.stdout if file is None else file
        file.write(self._report())
        file.flush()

    def lines(self) -> list[Line]:
        """Returns the lines that requested memory directly, merged over all callers, most used bytes first.

        `max_depth` does not limit this list.
        """
        return [Line(*row) for row in self._lines()]
