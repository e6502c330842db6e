"""Numbers for logs: memory in use, and the peak since the last reading."""

from __future__ import annotations

from typing import Any

from vramscope.profiler._peaks import PeakBook
from vramscope.profiler._sources import MemorySource, source_of


class MemoryMeter:
    """Reads a device's memory in use and the peak since the previous reading.

    It shares the device's peak counters with other readers. Raises like `GPUMemoryProfiler`.
    """

    def __init__(self, device: Any = None, *, source: MemorySource | None = None) -> None:
        self.source = source_of(device, source)
        self._book = PeakBook.of(self.source)
        self._scope = self._book.open()

    def read(self) -> dict[str, int]:
        """Returns the memory in use, in bytes.

        The keys are `peak_bytes` (allocated, since the last reading), `allocated_bytes` and `reserved_bytes`. If the
        driver answers, also `device_used_bytes` (by all processes) and `hidden_bytes` (the part of it outside the
        pool).
        """
        now, peaks = self._book.turn(self._scope)
        found = {"peak_bytes": peaks.allocated, "allocated_bytes": now.allocated, "reserved_bytes": now.reserved}
        memory = self.source.device_memory()
        if memory is not None:
            found["device_used_bytes"] = memory.used
            found["hidden_bytes"] = max(0, memory.used - now.reserved)
        return found
