"""A thread that samples at intervals."""

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
    """Calls `tick` every `interval` seconds on its own thread: first in `start`, last in `stop`.

    The schedule is fixed; samples that fall due during a slow one are skipped and counted in `missed`.
    The first exception of `tick` is logged, and sampling continues. `tick` returns False to end it.
    """

    def __init__(self, name: str, interval: float, tick: Callable[[], bool]) -> None:
        self.interval = seconds("interval", interval)
        self.missed = 0
        self._tick = tick
        self._stop = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Takes the first sample and starts the thread."""
        if self._look():
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread samples; False in a forked child."""
        return self._thread.is_alive() and not self._stop.is_set()

    def stop(self) -> None:
        """Takes the last sample at once."""
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
                logger.warning("%s cannot sample: %s", self._thread.name, error)
            self._failing = True
            return True
        self._failing = False
        return goes_on
