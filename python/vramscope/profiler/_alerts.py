"""Rules for raising and clearing alerts."""

from __future__ import annotations

from collections import deque

#: An alert can be raised again after the value fell below this fraction of its threshold.
_UNTIL = 0.9
#: The shortest time between two alerts of one threshold, in seconds.
_MIN_INTERVAL = 10.0
#: The window over which growth is measured, in seconds.
_WINDOW = 60.0

#: A new tracker's thresholds: percent of the device, bytes per minute, and a fraction of reserved bytes.
DEFAULTS = {
    "memory_warning_percent": 80.0,
    "memory_critical_percent": 95.0,
    "memory_leak_threshold": 100.0 * 1024 * 1024,
    "fragmentation_threshold": 0.3,
}


class Watched:
    """One threshold. Each crossing raises one alert, however many samples lie above the threshold."""

    def __init__(self) -> None:
        self._raised = False
        self._last: float | None = None

    def update(self, value: float, above: float, at: float) -> str | None:
        """Takes a value at a monotonic time in seconds; returns `raised`, `cleared` or `None`."""
        if self._raised:
            self._raised = value > above * _UNTIL
            return None if self._raised else "cleared"
        waited = self._last is None or at - self._last >= _MIN_INTERVAL
        if not value >= above or not waited:
            return None
        self._raised, self._last = True, at
        return "raised"


class Growth:
    """The growth of retained memory per minute.

    It compares the minimum of each third of a window with the minimum of the previous third, and takes the smaller of
    the two steps. So temporary memory and one-time allocations do not count. Nothing is reported until a whole window
    has passed.
    """

    def __init__(self, window: float = _WINDOW) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def update(self, at: float, allocated: int) -> float | None:
        """Takes a sample; returns bytes per minute, or `None` if it is too early."""
        self._seen.append((at, allocated))
        # Keep one sample from before the window, so that the window is complete.
        while len(self._seen) > 2 and self._seen[1][0] <= at - self._window:
            self._seen.popleft()
        if self._seen[0][0] > at - self._window:
            return None
        third = self._window / 3
        least: list[int | None] = [None, None, None]
        for time, n in self._seen:
            i = min(2, max(0, int((time - (at - self._window)) / third)))
            before = least[i]
            least[i] = n if before is None else min(before, n)
        first, second, last = least
        if first is None or second is None or last is None:
            return None
        return min(second - first, last - second) / third * 60
