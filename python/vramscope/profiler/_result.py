"""The result of one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vramscope import _native
from vramscope._arguments import number
from vramscope.profiler._snapshot import MemorySnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class ProfileResult:
    """The memory use of one call or block, in bytes; times in seconds.

    `memory_allocated` and `memory_freed` are gross: all bytes allocated and freed during the call, on all threads.
    `memory_peak` has the peak of each kind, each at its own moment, including memory live before. `tensors_created` and
    `tensors_deleted` count the allocator's allocated and freed blocks; both are 0 if blocks are not tracked.
    `peak_is_exact` is True if no higher peak can have been missed. `depth` is the number of calls of the same profiler
    around this one. `outcome` is `returned` or `failed`; for a failure, `error` is the exception.
    """

    function_name: str
    execution_time: float
    memory_before: MemorySnapshot
    memory_after: MemorySnapshot
    memory_peak: MemorySnapshot
    memory_allocated: int
    memory_freed: int
    tensors_created: int
    tensors_deleted: int
    call_count: int = 1
    peak_is_exact: bool = True
    depth: int = 0
    outcome: str = "returned"
    error: str | None = None

    def memory_diff(self) -> int:
        """Allocated bytes after the call minus allocated bytes before."""
        return self.memory_after.allocated_memory - self.memory_before.allocated_memory

    def peak_memory_usage(self) -> int:
        """The peak of allocated bytes during the call, including memory live before."""
        return self.memory_peak.allocated_memory

    def peak_above_start(self) -> int:
        """The peak minus the bytes allocated when the call began."""
        return max(0, self.peak_memory_usage() - self.memory_before.allocated_memory)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and the derived values for JSON."""
        return {
            "function_name": self.function_name,
            "execution_time": self.execution_time,
            "memory_before": self.memory_before.to_dict(),
            "memory_after": self.memory_after.to_dict(),
            "memory_peak": self.memory_peak.to_dict(),
            "memory_allocated": self.memory_allocated,
            "memory_freed": self.memory_freed,
            "memory_diff": self.memory_diff(),
            "peak_memory_usage": self.peak_memory_usage(),
            "tensors_created": self.tensors_created,
            "tensors_deleted": self.tensors_deleted,
            "call_count": self.call_count,
            "peak_is_exact": self.peak_is_exact,
            "depth": self.depth,
            "outcome": self.outcome,
            "error": self.error,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProfileResult:
        """Creates a result from the output of `to_dict`; ignores unknown keys."""
        return cls(
            function_name=data["function_name"],
            execution_time=data["execution_time"],
            memory_before=MemorySnapshot.from_dict(data["memory_before"]),
            memory_after=MemorySnapshot.from_dict(data["memory_after"]),
            memory_peak=MemorySnapshot.from_dict(data["memory_peak"]),
            memory_allocated=data.get("memory_allocated") or 0,
            memory_freed=data.get("memory_freed") or 0,
            tensors_created=data.get("tensors_created") or 0,
            tensors_deleted=data.get("tensors_deleted") or 0,
            call_count=data.get("call_count") or 1,
            peak_is_exact=data.get("peak_is_exact", True),
            depth=data.get("depth", 0),
            outcome=data.get("outcome", "returned"),
            error=data.get("error"),
        )

    def __str__(self) -> str:
        """Returns one line: the peak, its distance above the start, the retained bytes, and the time."""
        at_least = "" if self.peak_is_exact else "at least "
        line = (
            f"{self.function_name}: peak {at_least}{format_bytes(self.peak_memory_usage())}"
            f" ({format_bytes(self.peak_above_start())} above the start),"
            f" {format_bytes(self.memory_diff(), signed=True)} after, {self.execution_time:.3f} s"
        )
        return line if self.error is None else f"{line}; failed: {self.error}"


def format_bytes(n: float, *, signed: bool = False) -> str:
    """Formats bytes as text: `512 B`, `1.50 MiB`. `signed` adds a plus to values that are not negative: `+512 B`."""
    size = number("n", n)
    sign = "-" if size < 0 else "+" if signed else ""
    return sign + _native.format_bytes(abs(size))
