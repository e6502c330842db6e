"""The summary of all calls, including those whose results were dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vramscope.profiler._result import ProfileResult


@dataclass
class _Function:
    """All calls of one name."""

    call_count: int = 0
    failed_calls: int = 0
    total_time: float = 0.0
    total_memory_allocated: int = 0
    peak_memory: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "call_count": self.call_count,
            "total_time": self.total_time,
            "avg_time": self.total_time / self.call_count,
            "total_memory_allocated": self.total_memory_allocated,
            "avg_memory_allocated": self.total_memory_allocated / self.call_count,
            "peak_memory": self.peak_memory,
            "failed_calls": self.failed_calls,
        }


class Totals:
    """Sums over calls. Names count all their calls; totals count outermost calls only, so nothing counts twice."""

    def __init__(self) -> None:
        self.functions: dict[str, _Function] = {}
        self.calls = 0
        self.time = 0.0
        self.allocated = 0
        self.freed = 0

    def add(self, result: ProfileResult) -> None:
        """Adds a call's result."""
        function = self.functions.setdefault(result.function_name, _Function())
        function.call_count += 1
        function.failed_calls += result.outcome != "returned"
        function.total_time += result.execution_time
        function.total_memory_allocated += result.memory_allocated
        function.peak_memory = max(function.peak_memory, result.peak_memory_usage())
        self.calls += 1
        if result.depth == 0:
            self.time += result.execution_time
            self.allocated += result.memory_allocated
            self.freed += result.memory_freed

    def to_dict(self) -> dict[str, Any]:
        """Returns the sums with gpumemprof's keys."""
        return {
            "total_functions_profiled": len(self.functions),
            "total_function_calls": self.calls,
            "total_execution_time": self.time,
            "total_memory_allocated": self.allocated,
            "total_memory_freed": self.freed,
            "net_memory_change": self.allocated - self.freed,
            "function_summaries": {name: function.to_dict() for name, function in self.functions.items()},
        }
