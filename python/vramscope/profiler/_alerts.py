"""When an alert is raised, and when it is over."""

from __future__ import annotations

from collections import deque

#: The value below which an alert may be raised again, as a part of its threshold.
_UNTIL = 0.9
#: The least seconds between two alerts of one threshold.
_MIN_INTERVAL = 10.0
#: The seconds over which growth is measured.
_WINDOW = 60.0

#: The thresholds of a new tracker: per cent of the device, bytes a minute, and a part of what is reserved.
DEFAULTS = {
    "memory_warning_percent": 80.0,
    "memory_critical_percent": 95.0,
    "memory_leak_threshold": 100.0 * 1024 * 1024,
    "fragmentation_threshold": 0.3,
}


class Watched:
    """One threshold: one crossing is one alert, however many samples lie above it."""

    def __init__(self) -> None:
        self._raised = False
        self._last: float | None = None

    def update(self, value: float, above: float, at: float) -> str | None:
        """Takes a value at a time of a clock that is never set; returns `raised`, `cleared` or `None`."""
        if self._raised:
            self._raised = value > above * _UNTIL
            return None if self._raised else "cleared"
        waited = self._last is None or at - self._last >= _MIN_INTERVAL
        if not value >= above or not waited:
            return None
        self._raised, self._last = True, at
        return "raised"


class Growth:
    """How much what stays allocated grows a minute.

    It compares the least of each third of a window with that of the third before, and takes the lower of the two steps:
    what comes and goes does not count, nor does what is made once. Nothing is said before a whole window has passed.
    """

    def __init__(self, window: float = _WINDOW) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def update(self, at: float, allocated: int) -> float | None:
        """Takes a sample; returns bytes a minute, or `None` where it is too early."""
        self._seen.append((at, allocated))
        # One sample from before the window stays, so that the window is whole.
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
