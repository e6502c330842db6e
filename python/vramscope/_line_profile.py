"""Memory by line of the program: the report that hooks share."""

import sys
from typing import NamedTuple, TextIO

from vramscope import _arguments
from vramscope._native import LineProfile


class Line(NamedTuple):
    """A line of the program, with what it asked for itself; lines that it called count for themselves."""

    filename: str
    """The source file."""
    lineno: int | None
    """The line in it, from 1; None where the code has none."""
    name: str
    """The function, or `<module>`."""
    used_bytes: int
    """Bytes taken from the pool, in all."""
    acquired_bytes: int
    """Bytes that the pool took from the device for it."""


class LineReport(LineProfile):
    """What was counted by line, and how it is told."""

    def __init__(self, max_depth: int = 0) -> None:
        self._max_depth = max(0, min(_arguments.whole("max_depth", max_depth), sys.maxsize))

    def print_report(self, file: TextIO | None = None) -> None:
        """Writes each line of the program, with `(used bytes, acquired bytes)`, under the line that called it.

        Args:
            file: What is written to; standard output where it is left out.
        """
        file = sys.stdout if file is None else file
        for line in self._report():
            file.write(line)
        file.flush()

    def lines(self) -> list[Line]:
        """Gives the lines that asked for memory themselves, whoever called them, those that used most first.

        `max_depth` does not bound them.
        """
        return [Line(*row) for row in self._lines()]
