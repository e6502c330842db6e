"""`MemoryWatchdog`: empties the cache when the device fills up."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

from vramscope.profiler._monitor import logger

if TYPE_CHECKING:
    from vramscope.profiler._sources import DeviceMemory, Reading
    from vramscope.profiler._tracker import MemoryTracker


class MemoryWatchdog:
    """Empties the pool's cache, if it has one, when the device fills up, whichever process fills it.

    From `aggressive_cleanup_threshold` on, it first runs Python's garbage collector. It acts at most once every
    `min_cleanup_interval` seconds, on the tracker's thread.
    """

    def __init__(
        self,
        tracker: MemoryTracker,
        auto_cleanup: bool = True,
        cleanup_threshold: float = 0.9,
        aggressive_cleanup_threshold: float = 0.95,
    ) -> None:
        self.tracker = tracker
        self.auto_cleanup = auto_cleanup
        self.cleanup_threshold = cleanup_threshold
        self.aggressive_cleanup_threshold = aggressive_cleanup_threshold
        self.cleanup_count = 0
        self.last_cleanup_time = 0.0
        self.min_cleanup_interval = 30.0
        self._last: float | None = None
        tracker._sample_callbacks.append(self._look)

    def _look(self, now: Reading, memory: DeviceMemory | None) -> None:
        if not self.auto_cleanup or memory is None or memory.total <= 0 or now.inactive <= 0:
            return
        part = memory.used / memory.total
        waited = self._last is None or time.monotonic() - self._last >= self.min_cleanup_interval
        if part >= self.cleanup_threshold and waited:
            self.force_cleanup(aggressive=part >= self.aggressive_cleanup_threshold)

    def force_cleanup(self, aggressive: bool = False) -> None:
        """Empties the cache now; with `aggressive`, runs Python's garbage collector first.

        A failure becomes an event.
        """
        source, tracker = self.tracker.source, self.tracker
        self._last, self.last_cleanup_time = time.monotonic(), time.time()
        self.cleanup_count += 1
        try:
            before = source.read().reserved
            if aggressive:
                gc.collect()
            source.empty_cache()
            given = before - source.read().reserved
        except Exception as error:
            logger.warning("could not empty the cache: %s", error)
            tracker._add_event("error", 0, f"Cleanup failed: {error}")
            return
        kind = "aggressive" if aggressive else "standard"
        tracker._add_event("cleanup", 0, f"Performed {kind} memory cleanup", {"freed_bytes": given})

    def get_cleanup_stats(self) -> dict[str, Any]:
        """Returns cleanup counts and thresholds."""
        return {
            "cleanup_count": self.cleanup_count,
            "last_cleanup_time": self.last_cleanup_time,
            "auto_cleanup_enabled": self.auto_cleanup,
            "cleanup_threshold": self.cleanup_threshold,
            "aggressive_cleanup_threshold": self.aggressive_cleanup_threshold,
        }
