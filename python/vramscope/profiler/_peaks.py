"""Nested peaks.

PyTorch counts one peak per device, and a reset destroys it for all other readers. So each device has one `PeakBook`,
shared by all scopes of all threads:

    outer scope   |------------------------------|
    inner scope           |-------|
    PyTorch's        P1   R   P2        P3          R: reset, when a scope opens

Before each reset, the book merges the current peak (P1) into every open scope, and into the values that the program
will see. When a scope closes, the book merges the current peak again, without a reset: the outer scope gets the maximum
of P1, P2 and P3, the inner scope P2.

The program's own `torch.cuda.max_memory_allocated()` returns the same values as without a profiler. From the first
scope on, the underlying functions of `torch._C` are patched to include the merged peaks. The patch also notices resets
by the program, so that open scopes lose nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from vramscope.profiler._sources import ORIGINALS, MemorySource, Peaks, Reading, reading_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: Functions of `torch._C` that read a device's peaks, and those that reset them.
_READ = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
_RESET = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")


class PeakScope:
    """The peaks from `PeakBook.open` to `close`, including memory in use at the start.

    `is_exact` is False if something was allocated in the few microseconds between reading and resetting the allocator's
    peaks for another scope, or if the source counts no peaks. The peaks are then lower bounds.
    """

    __slots__ = ("__weakref__", "is_exact", "peaks", "start")

    start: Reading
    """The memory in use when the scope opened."""
    peaks: Peaks
    """The peaks so far, as of the last reading of the allocator."""
    is_exact: bool
    """Whether no higher peak can have been missed."""

    def __init__(self, start: Reading, is_exact: bool) -> None:
        self.start = start
        self.peaks = start.current
        self.is_exact = is_exact


class PeakBook:
    """The open scopes of one device. Each call holds the lock for tens of microseconds."""

    _books: dict[Hashable, PeakBook] = {}  # noqa: RUF012

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self._lock = threading.RLock()
        # Weak references, so that an abandoned scope costs nothing.
        self._open: weakref.WeakSet[PeakScope] = weakref.WeakSet()
        #: Peaks before resets by scopes, which the program must still see: PyTorch's nested dictionary, peaks only.
        self._kept: dict[str, Any] = {}
        _all_books.add(self)

    @classmethod
    def of(cls, source: MemorySource) -> PeakBook:
        """Returns the book of the source's device."""
        key = source.key
        if isinstance(key, int):
            # A custom source is not shared, and its key is unique only while the source lives.
            book = getattr(source, "_peak_book", None)
            if book is None:
                book = source._peak_book = cls(source)  # type: ignore[attr-defined]
            return book
        with _books_lock:
            book = cls._books.get(key)
            if book is None:
                book = cls._books[key] = cls(source)
        if key == ("torch", source.device_index):
            _see_kept_peaks()
        return book

    def open(self) -> PeakScope:
        """Opens a scope; its `start` is the memory in use now."""
        with self._lock:
            scope = PeakScope(self._restart(), self._source.knows_peaks)
            self._open.add(scope)
            return scope

    def look(self) -> Reading:
        """Returns the memory in use now and updates the peaks of open scopes."""
        with self._lock:
            now = self._source.read()
            self._fold(now)
            return now

    def close(self, scope: PeakScope) -> Reading:
        """Ends a scope and returns the memory in use now."""
        with self._lock:
            try:
                return self.look()
            finally:
                self._open.discard(scope)

    def turn(self, scope: PeakScope) -> tuple[Reading, Peaks]:
        """Returns the memory in use now and the scope's peaks, then restarts the scope."""
        with self._lock:
            now = self._restart()
            peaks = scope.peaks.highest(now.current)
            scope.start, scope.peaks, scope.is_exact = now, now.current, self._source.knows_peaks
            return now, peaks

    def _fold(self, now: Reading) -> None:
        """Merges the current peaks into every open scope."""
        peaks = now.peaks if self._source.knows_peaks else now.current
        for scope in self._open:
            scope.peaks = scope.peaks.highest(peaks)

    def _restart(self) -> Reading:
        """Merges the peaks, then resets the allocator's peaks if they exceed the memory in use."""
        source = self._source
        if source.key == ("torch", source.device_index):
            before, stats = self._read_torch()
        else:
            before, stats = source.read(), {}
        self._fold(before)
        if not source.knows_peaks or before.peaks == before.current:
            return before
        _keep(self._kept, stats)
        source.reset_peaks()
        now = source.read()
        if now.allocated_bytes != before.allocated_bytes:
            for scope in self._open:
                scope.is_exact = False
        return now

    def _read_torch(self) -> tuple[Reading, dict[str, Any]]:
        torch: Any = sys.modules["torch"]
        if not torch.cuda.is_initialized():
            return self._source.read(), {}
        stats = ORIGINALS["_cuda_memoryStats"](self._source.device_index)
        return reading_of(stats), stats

    # ---- values that the program sees ----

    def seen(self, stats: dict[str, Any]) -> dict[str, Any]:
        """Returns the allocator's statistics with the peaks that the program would see without a profiler."""
        with self._lock:
            _raise(stats, self._kept)
        return stats

    def reset_by_program(self, reset: Callable[[], Any]) -> Any:
        """Performs a reset requested by the program; open scopes keep their peaks."""
        with self._lock:
            if self._open:
                self._fold(self._source.read())
            self._kept.clear()
            return reset()


def _keep(kept: dict[str, Any], stats: dict[str, Any]) -> None:
    """Raises the peaks in `kept` to those of the allocator's statistics."""
    for name, value in stats.items():
        if isinstance(value, dict):
            _keep(kept.setdefault(name, {}), value)
        elif name == "peak":
            kept[name] = max(kept.get(name, 0), value)


def _raise(stats: dict[str, Any], kept: dict[str, Any]) -> None:
    """Raises the peaks in the allocator's statistics to the kept ones."""
    for name, value in kept.items():
        if isinstance(value, dict):
            if name in stats:
                _raise(stats[name], value)
        elif name in stats:
            stats[name] = max(stats[name], value)


_books_lock = threading.Lock()
_all_books: weakref.WeakSet[PeakBook] = weakref.WeakSet()


def _see_kept_peaks() -> None:
    """Patches PyTorch's functions, once, to include the kept peaks."""
    torch: Any = sys.modules["torch"]
    with _books_lock:
        for names, wrap in ((_READ, _reading), (_RESET, _resetting)):
            for name in names:
                original = getattr(torch._C, name, None)
                if original is not None and name not in ORIGINALS:
                    ORIGINALS[name] = original
                    setattr(torch._C, name, wrap(original))


def _reading(original: Any) -> Callable[..., Any]:
    def memory_stats(*args: Any) -> Any:
        """PyTorch's own function, with its peaks as if vramscope's profiler were absent."""
        stats = original(*args)
        book = _book_of(args)
        return stats if book is None else book.seen(stats)

    memory_stats.__wrapped__ = original  # type: ignore[attr-defined]
    return memory_stats


def _resetting(original: Any) -> Callable[..., Any]:
    def reset_peak_memory_stats(*args: Any) -> Any:
        """PyTorch's own function; open scopes of vramscope's profiler keep their peaks."""
        book = _book_of(args)
        return original(*args) if book is None else book.reset_by_program(lambda: original(*args))

    reset_peak_memory_stats.__wrapped__ = original  # type: ignore[attr-defined]
    return reset_peak_memory_stats


def _book_of(args: tuple[Any, ...]) -> PeakBook | None:
    return PeakBook._books.get(("torch", args[0])) if args else None


def _after_fork() -> None:
    """After a fork, no other thread can release a lock, and PyTorch cannot use CUDA."""
    global _books_lock
    _books_lock = threading.Lock()
    for book in _all_books:
        book._lock = threading.RLock()
        book._open = weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
