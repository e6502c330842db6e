"""Peaks that nest.

PyTorch counts one peak a device, and a reset of it is a loss for everybody else who reads it. So a device has one book,
`PeakBook`, that all scopes of all threads share:

    outer scope   |------------------------------|
    inner scope           |-------|
    PyTorch's        P1   R   P2        P3          R: reset, when a scope opens

Before each reset, the peak so far (P1) is folded into every open scope, and into what the program itself will see. When
a scope closes, the peak so far is folded again and nothing is reset: the outer scope has the highest of P1, P2 and P3,
the inner one P2.

The program's own `torch.cuda.max_memory_allocated()` stays what it would be without a profiler: from the first scope
on, the functions of `torch._C` behind it answer with the peaks that were folded, and a reset by the program is noticed,
so that it takes nothing away from open scopes.
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

#: The functions of `torch._C` that read a device's peaks, and those that reset them.
_READ = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
_RESET = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")


class PeakScope:
    """The highest bytes from `PeakBook.open` until `close`, what was in use at the beginning included.

    `is_exact` is False where something was allocated in the few microseconds between reading the allocator's peaks and
    resetting them for another scope, or where the source counts no peaks: then the peaks are at least as high.
    """

    __slots__ = ("__weakref__", "is_exact", "peaks", "start")

    start: Reading
    """What was in use when it was opened."""
    peaks: Peaks
    """The highest bytes so far, as of the last time that anybody asked the allocator."""
    is_exact: bool
    """Whether no higher peak can have been missed."""

    def __init__(self, start: Reading, is_exact: bool) -> None:
        self.start = start
        self.peaks = start.current
        self.is_exact = is_exact


class PeakBook:
    """The open scopes of one device. Each call holds the lock for some tens of microseconds."""

    _books: dict[Hashable, PeakBook] = {}  # noqa: RUF012

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self._lock = threading.RLock()
        # Weak, so that a scope that nobody closes any more costs nothing.
        self._open: weakref.WeakSet[PeakScope] = weakref.WeakSet()
        #: What the program saw before resets that were not its own: PyTorch's nested dictionary, of peaks alone.
        self._kept: dict[str, Any] = {}
        _all_books.add(self)

    @classmethod
    def of(cls, source: MemorySource) -> PeakBook:
        """The book of the source's device."""
        key = source.key
        if isinstance(key, int):
            # A source of one's own: it is nobody else's, and its key is only its own while it lives.
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
        """Opens a scope; `start` is what is in use when it begins."""
        with self._lock:
            scope = PeakScope(self._restart(), self._source.knows_peaks)
            self._open.add(scope)
            return scope

    def look(self) -> Reading:
        """What is in use now; the peaks of open scopes are up to date."""
        with self._lock:
            now = self._source.read()
            self._fold(now)
            return now

    def close(self, scope: PeakScope) -> Reading:
        """Ends a scope, and returns what is in use now."""
        with self._lock:
            try:
                return self.look()
            finally:
                self._open.discard(scope)

    def turn(self, scope: PeakScope) -> tuple[Reading, Peaks]:
        """Returns what is in use now and the peaks of the scope, which begins anew."""
        with self._lock:
            now = self._restart()
            peaks = scope.peaks.highest(now.current)
            scope.start, scope.peaks, scope.is_exact = now, now.current, self._source.knows_peaks
            return now, peaks

    def _fold(self, now: Reading) -> None:
        """Gives every open scope the peaks so far."""
        peaks = now.peaks if self._source.knows_peaks else now.current
        for scope in self._open:
            scope.peaks = scope.peaks.highest(peaks)

    def _restart(self) -> Reading:
        """Folds, and lets the allocator's peaks begin anew where they are above what is in use."""
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

    # ---- what the program sees ----

    def seen(self, stats: dict[str, Any]) -> dict[str, Any]:
        """The allocator's statistics with the peaks that the program would see without a profiler."""
        with self._lock:
            _raise(stats, self._kept)
        return stats

    def reset_by_program(self, reset: Callable[[], Any]) -> Any:
        """A reset that the program asks for: open scopes keep what there was."""
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
    """Raises the peaks in the allocator's statistics to those that were kept."""
    for name, value in kept.items():
        if isinstance(value, dict):
            if name in stats:
                _raise(stats[name], value)
        elif name in stats:
            stats[name] = max(stats[name], value)


_books_lock = threading.Lock()
_all_books: weakref.WeakSet[PeakBook] = weakref.WeakSet()


def _see_kept_peaks() -> None:
    """Lets PyTorch's functions answer with the peaks that were kept, once."""
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
        """PyTorch's own function, with the peaks that it would know without vramscope's profiler."""
        stats = original(*args)
        book = _book_of(args)
        return stats if book is None else book.seen(stats)

    memory_stats.__wrapped__ = original  # type: ignore[attr-defined]
    return memory_stats


def _resetting(original: Any) -> Callable[..., Any]:
    def reset_peak_memory_stats(*args: Any) -> Any:
        """PyTorch's own function; scopes of vramscope's profiler that are open keep their peaks."""
        book = _book_of(args)
        return original(*args) if book is None else book.reset_by_program(lambda: original(*args))

    reset_peak_memory_stats.__wrapped__ = original  # type: ignore[attr-defined]
    return reset_peak_memory_stats


def _book_of(args: tuple[Any, ...]) -> PeakBook | None:
    return PeakBook._books.get(("torch", args[0])) if args else None


def _after_fork() -> None:
    """In a forked process no other thread lives that could give a lock back, and PyTorch has no CUDA."""
    global _books_lock
    _books_lock = threading.Lock()
    for book in _all_books:
        book._lock = threading.RLock()
        book._open = weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
