"""Finds functions that retain more memory from call to call, by the rule of the Rust profiler."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vramscope import _native
from vramscope.profiler._result import format_bytes

if TYPE_CHECKING:
    from vramscope.profiler._result import ProfileResult


@dataclass(frozen=True)
class LeakSuspect:
    """A function whose calls retain more and more memory, with the evidence; in bytes.

    `kept_bytes` is the growth since the first call that left memory, because one-time setup happens in that call.
    `floor` is the memory that the calls left and nothing freed later, after each `calls_per_point` calls.
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


class LeakDetector:
    """Follows the retained memory of calls. Its own memory grows with the number of names, not of calls."""

    def __init__(self) -> None:
        self.clear()

    def record(self, result: ProfileResult, returned: int = 0) -> None:
        """Takes a call's result, and the bytes of its returned values."""
        before, after = result.memory_before.allocated_memory, result.memory_after.allocated_memory
        self._calls.record(result.function_name, before, after, returned)

    def suspects(self, allocated: int) -> list[LeakSuspect]:
        """Returns the suspects, most bytes first; `allocated` is the number of bytes allocated now."""
        found = json.loads(self._calls.suspects(allocated))
        return [LeakSuspect(**suspect | {"floor": tuple(suspect["floor"])}) for suspect in found]

    def clear(self) -> None:
        """Forgets all calls."""
        self._calls = _native.FunctionLeaks()
