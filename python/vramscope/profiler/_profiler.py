"""`GPUMemoryProfiler`: profiles the memory of functions and blocks."""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections import defaultdict, deque
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vramscope import VramscopeError, _arguments, _native
from vramscope.profiler._leaks import LeakDetector, LeakSuspect
from vramscope.profiler._monitor import Monitor, logger
from vramscope.profiler._peaks import PeakBook, PeakScope
from vramscope.profiler._result import ProfileResult
from vramscope.profiler._snapshot import MemorySnapshot, calling_stack
from vramscope.profiler._sources import MemorySource, Peaks, Reading, source_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

#: The number of open calls around this one, per profiler, in this thread or task.
_DEPTHS: ContextVar[dict[int, int] | None] = ContextVar("vramscope_depths", default=None)


class Snapshots(deque[MemorySnapshot]):
    """The newest snapshots of a monitor: a bounded list that supports slices and comparison with lists."""

    def __getitem__(self, index: Any) -> Any:
        """Returns a snapshot, or a list for a slice."""
        return list(self)[index] if isinstance(index, slice) else super().__getitem__(index)

    def __eq__(self, other: object) -> bool:
        """Whether both contain the same snapshots in the same order."""
        return isinstance(other, (list, deque)) and list(self) == list(other)

    __hash__ = None


class GPUMemoryProfiler:
    """Profiles the GPU memory of functions and blocks on one device.

    It measures the bytes that they allocate and free, their peak, and the bytes that stay allocated.

    `device` is `"cuda:0"`, a number, a `torch.device`, or `None` for the current one; `source` replaces it with another
    source of numbers. `track_tensors` counts the allocator's blocks, `track_cpu_memory` reads this process's host
    memory, and `collect_stack_traces` stores the calling stack in snapshots. The profiler keeps the newest
    `max_snapshots` snapshots and `max_results` results; the summary covers all calls.

    Raises `RuntimeError` without CUDA, and `ValueError` for a missing or non-CUDA device, or a limit below 1.

    Every call has its own peak, even if calls nest or other threads profile. `torch.cuda.max_memory_allocated()`
    returns the same values as without the profiler. The profiler neither waits for the GPU nor searches Python objects.
    It is thread-safe.
    """

    def __init__(
        self,
        device: Any = None,
        track_tensors: bool = True,
        track_cpu_memory: bool = True,
        collect_stack_traces: bool = False,
        max_snapshots: int = 10_000,
        *,
        max_results: int = 10_000,
        source: MemorySource | None = None,
    ) -> None:
        for name, bound in (("max_snapshots", max_snapshots), ("max_results", max_results)):
            _arguments.at_least(name, bound, 1)
        self.source = source_of(device, source)
        self.device = self.source.device
        self.track_tensors = track_tensors
        self.track_cpu_memory = track_cpu_memory
        self.collect_stack_traces = collect_stack_traces
        self.max_snapshots = max_snapshots
        self.max_results = max_results
        self.results: list[ProfileResult] = []
        self.snapshots = Snapshots(maxlen=max_snapshots)
        self._book = PeakBook.of(self.source)
        self._lock = threading.RLock()
        self._leaks = LeakDetector()
        self._totals = _native.CallTotals()
        self._monitor: Monitor | None = None
        self._begin("baseline")
        _profilers.add(self)

    def _begin(self, operation: str) -> None:
        """Starts counting from a new baseline."""
        self._since_baseline = self._book.open()
        start = self._since_baseline.start
        self._totals.clear(_bytes(start))
        self._baseline_snapshot = self._snapshot(start, start.current, operation)

    # ---- calls ----

    def profile_function(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> ProfileResult:
        """Calls `func` and returns the measured result; `func`'s return value is dropped.

        Exceptions of `func` propagate; the result is then the last of `results`.
        """
        _arguments.function("func", func)
        with ProfileContext(self, getattr(func, "__name__", str(func))) as call:
            # Keep the returned value until the call ends, so that it counts as live.
            call.returned = func(*args, **kwargs)
        call.returned = None
        assert call.result is not None  # noqa: S101
        return call.result

    def profile_context(self, name: str = "context") -> ProfileContext:
        """Profiles a `with` block; `ProfileContext.result` is set when it ends."""
        return ProfileContext(self, name)

    def _record(self, result: ProfileResult, returned: object, now: Reading) -> None:
        ended = (
            result.function_name,
            result.depth,
            result.execution_time,
            result.outcome != "returned",
            result.memory_allocated,
            result.peak_memory_usage(),
        )
        with self._lock:
            self._totals.end(_bytes(now), ended)
            self.results.append(result)
            if len(self.results) > self.max_results:
                del self.results[: len(self.results) - self.max_results]
        held = 0 if returned is None or result.memory_diff() <= 0 else self.source.bytes_of(returned)
        with self._lock:
            self._leaks.record(result, held)

    @property
    def function_stats(self) -> dict[str, list[ProfileResult]]:
        """Returns the kept results, by name."""
        by_name: dict[str, list[ProfileResult]] = defaultdict(list)
        for result in list(self.results):
            by_name[result.function_name].append(result)
        return by_name

    # ---- monitoring ----

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Takes a snapshot every `interval` seconds on a thread, each with the peaks since the previous one.

        Raises `ValueError` if the interval is not above 0, and `VramscopeError` if monitoring already runs with another
        interval.
        """
        with self._lock:
            if self._monitoring:
                assert self._monitor is not None  # noqa: S101
                if self._monitor.interval == interval:
                    return
                every = self._monitor.interval
                raise VramscopeError(f"monitoring runs already, every {every:g} s; stop it first")
            this, scope = weakref.ref(self), self._book.open()

            def look() -> bool:
                profiler = this()
                if profiler is None:
                    return False
                profiler._look(scope)
                return True

            self._monitor = Monitor("vramscope monitor", interval, look)
            self._monitor.start()

    def _look(self, scope: PeakScope) -> None:
        now, peaks = self._book.turn(scope)
        memory = self.source.device_memory()
        used = None if memory is None else memory.used
        self.snapshots.append(self._snapshot(now, peaks, "monitor", device_used=used))

    def stop_monitoring(self) -> None:
        """Takes a last snapshot and stops monitoring; does nothing if monitoring does not run."""
        monitor = self._monitor
        if monitor is not None:
            monitor.stop()

    @property
    def _monitoring(self) -> bool:
        return self._monitor is not None and self._monitor.is_running

    # ---- results ----

    def get_summary(self) -> dict[str, Any]:
        """Summarizes all calls with gpumemprof's keys; returns `{"message": ...}` if nothing was profiled."""
        if not self._totals.calls:
            return {"message": "No profiling results available"}
        now = self._book.look()
        with self._lock:
            totals = json.loads(self._totals.summary(_bytes(now)))
            baseline = self._baseline_snapshot.allocated_memory
        return {
            "device": str(self.device),
            **totals,
            "peak_memory_usage": self._since_baseline.peaks.allocated,
            "peak_is_exact": self._since_baseline.is_exact,
            "current_memory_usage": now.allocated,
            "baseline_memory_usage": baseline,
            "memory_change_from_baseline": now.allocated - baseline,
            "monitoring_active": self._monitoring,
            "snapshots_collected": len(self.snapshots),
        }

    def leaks(self) -> list[LeakSuspect]:
        """Returns the functions whose calls retain more and more memory, most bytes first.

        A function needs at least three calls to appear. For the leaking lines, record the program and run `vramscope
        report`.
        """
        now = self.source.read()
        with self._lock:
            return self._leaks.suspects(now.allocated)

    def clear_results(self) -> None:
        """Clears results, snapshots, sums and leaks, and takes a new baseline.

        The program's own peaks stay, and monitoring continues.
        """
        with self._lock:
            self.results.clear()
            self.snapshots.clear()
            self._leaks.clear()
            self._begin("new_baseline")

    def _take_snapshot(self, operation: str | None = None) -> MemorySnapshot:
        now = self._book.look()
        return self._snapshot(now, self._since_baseline.peaks, operation)

    def _snapshot(
        self, now: Reading, peaks: Peaks, operation: str | None, *, device_used: int | None = None
    ) -> MemorySnapshot:
        snapshot = MemorySnapshot.of(
            self.source, now, peaks, operation, cpu=self.track_cpu_memory, device_used=device_used
        )
        if self.collect_stack_traces and operation not in (None, "monitor"):
            snapshot.stack_trace = calling_stack()
        return snapshot

    def __enter__(self) -> GPUMemoryProfiler:
        """Returns the profiler."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stops monitoring."""
        self.stop_monitoring()


class ProfileContext:
    """A profiled block, returned by `GPUMemoryProfiler.profile_context`."""

    def __init__(self, profiler: GPUMemoryProfiler, name: str, *, nests: bool = True) -> None:
        self.name = name
        #: The block's result; `None` until the block ends.
        self.result: ProfileResult | None = None
        self.returned: Any = None
        self._profiler = profiler
        # A generator's block is left and re-entered, so it does not nest with other blocks.
        self._nests = nests
        self._depth = 0
        self._scope: PeakScope | None = None

    def __enter__(self) -> ProfileContext:
        """Begins the block."""
        profiler = self._profiler
        if self._nests:
            self._depth = _enter(profiler)
        try:
            self._scope = scope = profiler._book.open()
            self._before = profiler._snapshot(scope.start, scope.start.current, f"before_{self.name}")
            profiler._totals.begin(_bytes(scope.start))
        except BaseException:
            self._leave()
            raise
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the block and stores its result; exceptions propagate."""
        took = time.perf_counter() - self._began
        self._leave()
        try:
            self.result, now = self._end(took, error)
        except Exception as own:
            self._profiler._totals.abandon()
            if error is None:
                raise
            # If the device no longer answers, do not hide the program's exception.
            logger.warning("%s failed, and its memory use is unknown: %s", self.name, own)
            return
        self._profiler._record(self.result, self.returned, now)

    def _leave(self) -> None:
        if self._nests:
            _leave(self._profiler)

    def _end(self, took: float, error: BaseException | None) -> tuple[ProfileResult, Reading]:
        profiler, scope, name = self._profiler, self._scope, self.name
        assert scope is not None  # noqa: S101
        now = profiler._book.close(scope)
        start, peaks = scope.start, scope.peaks
        failed = "" if error is None else "_error"
        after = profiler._snapshot(now, peaks, f"after_{name}{failed}")
        peak = replace(
            after,
            operation=f"peak_{name}{failed}",
            allocated_memory=peaks.allocated,
            reserved_memory=peaks.reserved,
            active_memory=peaks.active,
            cpu_memory=max(self._before.cpu_memory, after.cpu_memory),
            requested_memory=None,
        )
        net = now.allocated - start.allocated
        tracked = profiler.track_tensors
        result = ProfileResult(
            function_name=name,
            execution_time=took,
            memory_before=self._before,
            memory_after=after,
            memory_peak=peak,
            memory_allocated=_since(now.allocated_bytes, start.allocated_bytes, max(0, net)),
            memory_freed=_since(now.freed_bytes, start.freed_bytes, max(0, -net)),
            tensors_created=_since(now.num_allocations, start.num_allocations, 0) if tracked else 0,
            tensors_deleted=_since(now.num_frees, start.num_frees, 0) if tracked else 0,
            peak_is_exact=scope.is_exact,
            depth=self._depth,
            outcome="returned" if error is None else "failed",
            error=None if error is None else _message(error),
        )
        return result, now


def _bytes(now: Reading) -> tuple[int, int | None, int | None]:
    """Returns the numbers of a reading that the sums need."""
    return now.allocated, now.allocated_bytes, now.freed_bytes


def _since(now: int | None, before: int | None, otherwise: int) -> int:
    """Returns a counter's increase, or `otherwise` if the source does not count."""
    return otherwise if now is None or before is None else max(0, now - before)


def _message(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _enter(profiler: GPUMemoryProfiler) -> int:
    depths = _DEPTHS.get() or {}
    depth = depths.get(id(profiler), 0)
    _DEPTHS.set({**depths, id(profiler): depth + 1})
    return depth


def _leave(profiler: GPUMemoryProfiler) -> None:
    depths = dict(_DEPTHS.get() or {})
    depth = depths.pop(id(profiler), 1) - 1
    if depth > 0:
        depths[id(profiler)] = depth
    _DEPTHS.set(depths)


_profilers: weakref.WeakSet[GPUMemoryProfiler] = weakref.WeakSet()


def _after_fork() -> None:
    """After a fork, no other thread can release a lock."""
    for profiler in _profilers:
        profiler._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
