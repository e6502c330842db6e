"""Memory in use at one moment."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vramscope import _native

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from vramscope.profiler._sources import MemorySource, Peaks, Reading

_OWN_FILES = str(Path(__file__).parent)
#: The most frames kept per stack.
_MOST_FRAMES = 64


@dataclass
class MemorySnapshot:
    """Memory in use at one moment, in bytes.

    `allocated_memory` is the size of allocated blocks, after rounding; `active_memory` adds freed blocks that wait for
    another stream; `reserved_memory` was taken from the device; `inactive_memory` is its cached part.
    `max_memory_allocated` and `max_memory_reserved` are peaks since profiling began, or, in a monitor's snapshot, since
    the previous snapshot. `cpu_memory` is this process's resident host memory, 0 if not tracked. `timestamp` is in
    seconds since the Unix epoch. `requested_memory` is the size that callers requested; `device_used_memory` is the
    device's used memory by all processes. Both are `None` if unknown.
    """

    timestamp: float
    allocated_memory: int
    reserved_memory: int
    max_memory_allocated: int
    max_memory_reserved: int
    active_memory: int
    inactive_memory: int
    cpu_memory: int
    device_id: int = 0
    operation: str | None = None
    stack_trace: str | None = None
    requested_memory: int | None = None
    device_used_memory: int | None = None

    @classmethod
    def of(
        cls,
        source: MemorySource,
        now: Reading,
        peaks: Peaks,
        operation: str | None,
        *,
        cpu: bool = True,
        device_used: int | None = None,
    ) -> MemorySnapshot:
        """Creates a snapshot from a reading."""
        return cls(
            timestamp=time.time(),
            allocated_memory=now.allocated,
            reserved_memory=now.reserved,
            max_memory_allocated=peaks.allocated,
            max_memory_reserved=peaks.reserved,
            active_memory=now.active,
            inactive_memory=now.inactive,
            cpu_memory=_native.resident_memory() if cpu else 0,
            device_id=source.device_index,
            operation=operation,
            requested_memory=now.requested,
            device_used_memory=device_used,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MemorySnapshot:
        """Creates a snapshot from the output of `to_dict`; ignores unknown keys."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        known["cpu_memory"] = known.get("cpu_memory") or 0
        return cls(**known)


def calling_stack() -> str:
    """Formats the caller's stack like Python, outermost frame first, without the profiler's frames."""
    frames: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < _MOST_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN_FILES):
            frames.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n')
        frame = frame.f_back
    return "".join(reversed(frames))
