"""Finds memory that accumulates from call to call.

A call may leave memory live without a leak: a result that the caller drops, or a cache that fills once. So the
detector follows the retained memory of a name's calls over many calls. Before each call, it estimates how much memory
of earlier calls is still live:

    call             1   2   3   4   5   now
    a result         0   0   0   0   0   0     dropped by the caller
    a cache          0   4   6   6   6   6     levels off
    a growing list   0   1   2   3   4   5     a leak

An allocator cannot report this number without tracking every block. It has two upper bounds: the retained memory
minus the returned values, and the device's growth since the first call. The detector takes the lower one. Returned
values belong to the caller. A leak is a series whose floor keeps growing. `vramscope report` applies the same rule to
recordings, where it sees every block and names the leaking lines.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vramscope import _native
from vramscope.profiler._result import ProfileResult, format_bytes

#: The fewest calls of a name before a leak is reported.
_FEWEST_CALLS = 3
#: The most points of a series; above it, the lower of every two neighbors is kept.
_MOST_POINTS = 64


@dataclass(frozen=True)
class LeakSuspect:
    """A function whose calls retain more and more memory, with the evidence; in bytes.

    `kept_bytes` is the growth since the first point (one call, or the first `calls_per_point` calls), because one-time
    setup happens there. `floor` is the memory that earlier calls left and nothing freed later: one value before every
    `calls_per_point` calls, and one for now.
    """

    function_name: str
    calls: int
    kept_bytes: int
    bytes_per_call: float
    floor: tuple[int, ...]
    calls_per_point: int

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Returns one line with the evidence."""
        return (
            f"{self.function_name}: {format_bytes(self.kept_bytes)} more after {self.calls} calls,"
            f" {format_bytes(self.bytes_per_call)} a call"
        )


class _Calls:
    """The calls of one name."""

    def __init__(self, start: int) -> None:
        self.calls = 0
        self.left = 0
        self.start = start
        self.points: list[int] = []
        self.per_point = 1

    def kept(self, allocated: int) -> int:
        """Returns an upper bound of the memory that these calls left and that is still live."""
        return max(0, min(self.left, allocated - self.start))

    def end(self, before: int, change: int) -> None:
        kept = self.kept(before)
        if self.calls % self.per_point == 0:
            if len(self.points) == _MOST_POINTS:
                self.points = [min(two) for two in zip(self.points[::2], self.points[1::2], strict=True)]
                self.per_point *= 2
            self.points.append(kept)
        else:
            self.points[-1] = min(self.points[-1], kept)
        self.calls += 1
        # Memory freed since the last call no longer belongs to these calls.
        self.left = max(0, kept + change)

    def floor(self, allocated: int) -> list[int]:
        floor = [*self.points, self.kept(allocated)]
        for i in range(len(floor) - 2, -1, -1):
            floor[i] = min(floor[i], floor[i + 1])
        return floor


class LeakDetector:
    """Follows the retained memory of calls. Its own memory grows with the number of names, not of calls."""

    def __init__(self) -> None:
        self._functions: dict[str, _Calls] = {}

    def record(self, result: ProfileResult, returned: int = 0) -> None:
        """Takes a call's result, and the bytes of its returned values."""
        before, change = result.memory_before.allocated_memory, result.memory_diff()
        calls = self._functions.setdefault(result.function_name, _Calls(before))
        calls.end(before, max(0, change - returned) if change > 0 else change)

    def suspects(self, allocated: int) -> list[LeakSuspect]:
        """Returns the suspects, most bytes first; `allocated` is the number of bytes allocated now."""
        found = []
        for name, calls in list(self._functions.items()):
            floor = calls.floor(allocated)
            if calls.calls < _FEWEST_CALLS or not floor[-1] or not _native.keeps_growing(floor):
                continue
            kept, calls_since = floor[-1] - floor[1], calls.calls - calls.per_point
            found.append(LeakSuspect(name, calls.calls, kept, kept / calls_since, tuple(floor), calls.per_point))
        return sorted(found, key=lambda suspect: (-suspect.kept_bytes, suspect.function_name))

    def clear(self) -> None:
        """Forgets all calls."""
        self._functions.clear()
