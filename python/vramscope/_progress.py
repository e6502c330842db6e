"""A progress bar for terminals."""

from __future__ import annotations

import sys
import time

PATIENCE = 1.0
"""Seconds of work before the bar is shown."""

WIDTH = 30
"""Columns of the bar."""


class Bar:
    """A bar on stderr, which must be a terminal. Shown only for work longer than a second, and erased at the end."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = max(total, 1)
        self._from = time.monotonic() + PATIENCE
        self._is_shown = False

    def at(self, done: int) -> None:
        """Shows the progress: `done` of the total."""
        if time.monotonic() < self._from:
            return
        self._is_shown = True
        share = min(done / self._total, 1.0)
        filled = round(share * WIDTH)
        print(f"\r{self._what} [{'#' * filled:<{WIDTH}}] {share:4.0%}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
