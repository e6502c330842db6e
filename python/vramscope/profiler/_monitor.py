"""A thread that looks at something at intervals."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from vramscope._arguments import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("vramscope")


class Monitor:
    """Calls `tick` every `interval` seconds on a thread of its own, the first time at once and the last when it stops.

    Looks keep to their times; those that are due while one takes too long are left out, counted in `missed`.
    What `tick` raises is logged once, and looks go on. `tick` returns False to end.
    """

    def __init__(self, name: str, interval: float, tick: Callable[[], bool]) -> None:
        self.interval = seconds("interval", interval)
        self.missed = 0
        self._tick = tick
        self._stop = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Takes the first look and begins."""
        if self._look():
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether looks are taken; not in a process that was forked meanwhile."""
        return self._thread.is_alive() and not self._stop.is_set()

    def stop(self) -> None:
        """Takes the last look, at once."""
        if not self.is_running:
            return
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._look()

    def _run(self) -> None:
        due = time.monotonic() + self.interval
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            if not self._look():
                return
            late = int((time.monotonic() - due) / self.interval)
            self.missed += late
            due += (1 + late) * self.interval

    def _look(self) -> bool:
        try:
            goes_on = self._tick()
        except Exception as error:
            if not self._failing:
                logger.warning("%s cannot look: %s", self._thread.name, error)
            self._failing = True
            return True
        self._failing = False
        return goes_on
