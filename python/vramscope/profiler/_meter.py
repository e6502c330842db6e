"""Numbers to log: what is in use, and the highest since the last time."""

from __future__ import annotations

from typing import Any

from vramscope.profiler._peaks import PeakBook
from vramscope.profiler._sources import MemorySource, source_of


class MemoryMeter:
    """Says what is in use on a device, with the peak since it was read before.

    It shares the device's peaks with everybody else. Raises as `GPUMemoryProfiler` does.
    """

    def __init__(self, device: Any = None, *, source: MemorySource | None = None) -> None:
        self.source = source_of(device, source)
        self._book = PeakBook.of(self.source)
        self._scope = self._book.open()

    def read(self) -> dict[str, int]:
        """What is in use, in bytes.

        `peak_bytes` allocated since the last reading, `allocated_bytes`, `reserved_bytes`, and where the driver says it
        `device_used_bytes` by anyone and `hidden_bytes`, those outside of the pool.
        """
        now, peaks = self._book.turn(self._scope)
        found = {"peak_bytes": peaks.allocated, "allocated_bytes": now.allocated, "reserved_bytes": now.reserved}
        memory = self.source.device_memory()
        if memory is not None:
            found["device_used_bytes"] = memory.used
            found["hidden_bytes"] = max(0, memory.used - now.reserved)
        return found
