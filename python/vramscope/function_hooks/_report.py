"""Chainer's table of functions."""

from collections.abc import Mapping
from typing import Literal, TextIO, TypedDict

Unit = Literal["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "auto", "auto_foreach"]

UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB")


class Total(TypedDict):
    """The sums over all calls of a function."""

    used_bytes: int
    acquired_bytes: int
    occurrence: int


def unit_of(size: int) -> int:
    """Returns the power of 1024 of the largest unit that does not exceed `size` bytes; 0 bytes use unit 0."""
    power = 0
    while power + 1 < len(UNITS) and size >= 1024 ** (power + 1):
        power += 1
    return power


def write_report(summary: Mapping[str, Total], unit: str, file: TextIO) -> None:
    """Writes the table, one right-aligned line per function.

    Raises `KeyError` if `unit` is none of Chainer's.
    """
    if unit not in UNITS and unit not in ("auto", "auto_foreach"):
        raise KeyError(f"{unit!r} is not a unit: use one of {', '.join(UNITS)}, auto and auto_foreach")
    columns = [[total["used_bytes"], total["acquired_bytes"]] for total in summary.values()]
    if unit in UNITS:
        powers = [UNITS.index(unit)] * 2
    else:
        powers = [unit_of(max((bytes_[i] for bytes_ in columns), default=0)) for i in range(2)]
    rows: list[tuple[str, ...]] = [("FunctionName", "UsedBytes", "AcquiredBytes", "Occurrence")]
    for name, total in summary.items():
        cells = []
        for size, power in zip((total["used_bytes"], total["acquired_bytes"]), powers, strict=True):
            its_power = unit_of(size) if unit == "auto_foreach" else power
            cells.append(f"{size / 1024**its_power:.2f}{UNITS[its_power]}")
        rows.append((name, *cells, str(total["occurrence"])))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        file.write("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        file.write("\n")
    if hasattr(file, "flush"):
        file.flush()
