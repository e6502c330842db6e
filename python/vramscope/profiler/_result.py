"""The result of one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vramscope._arguments import number
from vramscope.profiler._snapshot import MemorySnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class ProfileResult:
    """What one call of a function, or one block, did to memory, in bytes; times in seconds.

    `memory_allocated` and `memory_freed` are gross: all that came and went meanwhile, on all threads. `memory_peak` has
    the highest value of each kind, each at its own moment, with what was live before. `tensors_created` and
    `tensors_deleted` are the allocator's blocks that were handed out and given back, 0 where they are not tracked.
    `peak_is_exact` says whether nothing can have been missed. `depth` is how many calls of the same profiler it was
    inside of. `outcome` is `returned` or `failed`, and `error` what was raised then.
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
        """Allocated bytes after the call, less those before."""
        return self.memory_after.allocated_memory - self.memory_before.allocated_memory

    def peak_memory_usage(self) -> int:
        """The highest allocated bytes while the call ran, with what was live before."""
        return self.memory_peak.allocated_memory

    def peak_above_start(self) -> int:
        """How far that peak is above what was allocated when the call began."""
        return max(0, self.peak_memory_usage() - self.memory_before.allocated_memory)

    def to_dict(self) -> dict[str, Any]:
        """The fields and what follows from them, for JSON."""
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
        """A result out of what `to_dict` gave; keys that are not known are passed over."""
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
        """One line: the peak, how far it is above the start, what stays, and the time."""
        at_least = "" if self.peak_is_exact else "at least "
        line = (
            f"{self.function_name}: peak {at_least}{format_bytes(self.peak_memory_usage())}"
            f" ({format_bytes(self.peak_above_start())} above the start),"
            f" {format_bytes(self.memory_diff(), signed=True)} after, {self.execution_time:.3f} s"
        )
        return line if self.error is None else f"{line}; failed: {self.error}"


def format_bytes(n: float, *, signed: bool = False) -> str:
    """The bytes `n` in words: `512 B`, `1.50 MiB`. With `signed`, what is not negative has a plus: `+512 B`."""
    size = number("n", n)
    sign = "-" if size < 0 else "+" if signed else ""
    size = abs(size)
    if size < 1024:
        return f"{sign}{int(size)} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{sign}{size:.2f} {unit}"
    return f"{sign}{size / 1024:.2f} TiB"
