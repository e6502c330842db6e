"""What piles up from call to call.

A call may leave something live and be no leak: its result, which the caller drops, or a cache that fills once. So what
the calls of a name left is followed over many calls. Before each call, it is counted how much of what earlier calls
left is still there:

    call             1   2   3   4   5   now
    a result         0   0   0   0   0   0     dropped by whoever called
    a cache          0   4   6   6   6   6     levels off
    a growing list   0   1   2   3   4   5     a leak

That number cannot be read off an allocator without watching every block. It is at most what the calls left beside
what they returned, and at most what the device grew by since the first call; the lower of the two is taken. What a
function returned is whoever called it to keep or to drop. A leak is a series whose floor keeps growing: the rule by
which `vramscope report` finds leaks in a recording, where every block is seen, and which names their lines.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vramscope import _native
from vramscope.profiler._result import ProfileResult, format_bytes

#: Calls of a name before a leak is reported.
_FEWEST_CALLS = 3
#: Points kept of a series; when there are more, each two are replaced by the lower one.
_MOST_POINTS = 64


@dataclass(frozen=True)
class LeakSuspect:
    """A function of whose calls more and more stays allocated, and the evidence; in bytes.

    `kept_bytes` is what piled up since the first call, or the first `calls_per_point`: much is made once at the
    beginning. `floor` is what earlier calls left and nothing freed later, before each `calls_per_point` calls and now.
    """

    function_name: str
    calls: int
    kept_bytes: int
    bytes_per_call: float
    floor: tuple[int, ...]
    calls_per_point: int

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """One line with the evidence."""
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
        """What is still there of what these calls left, at most."""
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
        # What was freed since the call before is no longer of these calls.
        self.left = max(0, kept + change)

    def floor(self, allocated: int) -> list[int]:
        floor = [*self.points, self.kept(allocated)]
        for i in range(len(floor) - 2, -1, -1):
            floor[i] = min(floor[i], floor[i + 1])
        return floor


class LeakDetector:
    """Follows what calls leave. Its memory grows with the number of names, and not with the number of calls."""

    def __init__(self) -> None:
        self._functions: dict[str, _Calls] = {}

    def record(self, result: ProfileResult, returned: int = 0) -> None:
        """Takes the result of a call, and the bytes of what it returned."""
        before, change = result.memory_before.allocated_memory, result.memory_diff()
        calls = self._functions.setdefault(result.function_name, _Calls(before))
        calls.end(before, max(0, change - returned) if change > 0 else change)

    def suspects(self, allocated: int) -> list[LeakSuspect]:
        """The functions of whose calls more and more stays, most bytes first; `allocated` is what is allocated now."""
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
