"""`MemoryTracker`: watches a device continuously, with events, alerts and phases."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vramscope import VramscopeError, _arguments, _native
from vramscope.profiler._events import Identity, TrackingEvent, timeline, write_events
from vramscope.profiler._flight_recorder import (
    OOMFlightRecorder,
    OOMFlightRecorderConfig,
    classify_oom_exception,
)
from vramscope.profiler._hidden import hidden_memory
from vramscope.profiler._history import native_history
from vramscope.profiler._monitor import Monitor, logger
from vramscope.profiler._peaks import PeakBook, PeakScope
from vramscope.profiler._phases import PhaseHandle, Phases
from vramscope.profiler._result import format_bytes
from vramscope.profiler._sources import DeviceMemory, MemorySource, Peaks, Reading, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike

_ALERTS = ("warning", "critical", "error")

#: A new tracker's thresholds: percent of the device, bytes per minute, and a fraction of reserved bytes.
_THRESHOLDS = {
    "memory_warning_percent": 80.0,
    "memory_critical_percent": 95.0,
    "memory_leak_threshold": 100.0 * 1024 * 1024,
    "fragmentation_threshold": 0.3,
}
#: The window over which growth is measured, in seconds.
_GROWTH_WINDOW = 60.0


class MemoryTracker:
    """Samples memory at intervals, each sample with the peaks since the previous one, and raises alerts.

    It keeps the newest `max_events` events, and as many alerts. With `enable_oom_flight_recorder`, `capture_oom` and
    `handle_exception` write bundles to `oom_dump_dir`. `job_id`, `rank`, `local_rank` and `world_size` default to the
    launcher's values. With `enable_native_cuda_history`, PyTorch records its history inside `capture_oom`, and the
    bundle contains it.

    Raises `ValueError` for an interval or limit of 0 or less, or a missing device, and `RuntimeError` without CUDA.
    """

    def __init__(
        self,
        device: Any = None,
        sampling_interval: float = 0.1,
        max_events: int = 10_000,
        enable_alerts: bool = True,
        enable_oom_flight_recorder: bool = False,
        oom_dump_dir: str = "oom_dumps",
        oom_buffer_size: int | None = None,
        oom_max_dumps: int = 5,
        oom_max_total_mb: int = 256,
        job_id: str | None = None,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        enable_native_cuda_history: bool = False,
        native_history_max_entries: int = 100_000,
        *,
        source: MemorySource | None = None,
    ) -> None:
        _arguments.seconds("sampling_interval", sampling_interval)
        _arguments.at_least("max_events", max_events, 1)
        _arguments.whole("oom_max_dumps", oom_max_dumps)
        _arguments.whole("oom_max_total_mb", oom_max_total_mb)
        _arguments.whole("native_history_max_entries", native_history_max_entries)
        _arguments.path("oom_dump_dir", oom_dump_dir)
        kept = 0 if oom_buffer_size is None else _arguments.at_least("oom_buffer_size", oom_buffer_size, -sys.maxsize)
        self.distributed_identity = Identity.of(job_id, rank, local_rank, world_size).to_dict()
        self.source = source_of(device, source)
        self.device = self.source.device
        self.backend = self.source.backend
        self.sampling_interval = sampling_interval
        self.max_events = max_events
        self.enable_alerts = enable_alerts
        self.enable_native_cuda_history = enable_native_cuda_history
        self.native_history_max_entries = native_history_max_entries
        self.last_oom_dump_path: str | None = None
        self.events: deque[TrackingEvent] = deque(maxlen=max_events)
        self.thresholds: dict[str, float] = dict(_THRESHOLDS)
        self.alert_callbacks: list[Callable[[TrackingEvent], None]] = []
        self.stats: dict[str, Any] = {}
        memory = self.source.device_memory()
        self.total_memory = 0 if memory is None else memory.total
        self._recorder = OOMFlightRecorder(
            OOMFlightRecorderConfig(
                enable_oom_flight_recorder,
                oom_dump_dir,
                kept if kept > 0 else max_events,
                oom_max_dumps,
                oom_max_total_mb,
            )
        )
        self._alerts: deque[TrackingEvent] = deque(maxlen=max_events)
        self._sample_callbacks: list[Callable[[Reading, DeviceMemory | None], None]] = []
        self._events_lock = threading.RLock()
        self._book = PeakBook.of(self.source)
        self._phases = Phases()
        self._monitor: Monitor | None = None
        self._scope: PeakScope | None = None
        self._rules = _native.Alerts(_GROWTH_WINDOW)
        self._last: Reading | None = None
        self._reset_stats()

    @property
    def oom_buffer_size(self) -> int:
        """The most events in a bundle."""
        return self._recorder.config.buffer_size

    # ---- tracking ----

    @property
    def is_tracking(self) -> bool:
        """Whether the tracker samples."""
        return self._monitor is not None and self._monitor.is_running

    def start_tracking(self) -> None:
        """Starts to sample on a thread; does nothing if it already runs."""
        with self._events_lock:
            if self.is_tracking:
                return
            self._scope, self._last = self._book.open(), None
            self._rules = _native.Alerts(_GROWTH_WINDOW)
            self.stats["tracking_start_time"] = time.time()
            self._add_event("start", 0, "Memory tracking started")
            this = weakref.ref(self)

            def look() -> bool:
                tracker = this()
                if tracker is None:
                    return False
                tracker._sample()
                return True

            self._monitor = Monitor("vramscope tracker", self.sampling_interval, look)
        self._monitor.start()

    def stop_tracking(self) -> None:
        """Takes the last sample at once and stops; does nothing if it does not run."""
        monitor = self._monitor
        if monitor is None or not monitor.is_running:
            return
        monitor.stop()
        if self._scope is not None:
            self._book.close(self._scope)
        self._add_event("stop", 0, "Memory tracking stopped")

    def _sample(self) -> None:
        """Takes a sample and records the resulting events."""
        if self._scope is None:
            self._scope = self._book.open()
        now, peaks = self._book.turn(self._scope)
        memory = self.source.device_memory()
        with self._events_lock:
            last, self._last = self._last, now
            change = 0 if last is None else now.allocated - last.allocated
            if memory is not None:
                self.total_memory = memory.total
            self._count(last, now, peaks, memory, change)
            if self.enable_alerts:
                self._judge(now, peaks, memory, change)
            phases = [phase.phase_path for phase in self._phases.innermost()]
            self._add_event(
                "sample",
                change,
                "Collected telemetry sample.",
                {"high_allocated_bytes": peaks.allocated, **({"phases": phases} if phases else {})},
                now=now,
                memory=memory,
            )
            callbacks = list(self._sample_callbacks)
        for callback in callbacks:
            callback(now, memory)

    def _count(
        self, last: Reading | None, now: Reading, peaks: Peaks, memory: DeviceMemory | None, change: int
    ) -> None:
        stats = self.stats
        stats["last_memory_check"] = time.time()
        if memory is not None:
            stats["peak_device_used"] = max(stats["peak_device_used"], memory.used)
        if peaks.allocated > stats["peak_memory"]:
            stats["peak_memory"] = peaks.allocated
            said = f"New peak memory: {format_bytes(peaks.allocated)}"
            self._add_event("peak", change, said, now=now, memory=memory)
        if last is None:
            # Memory allocated before tracking is not a new allocation.
            return
        for kind, name, blocks, freed, word in (
            ("allocation", "allocations", "num_allocations", "allocated_bytes", "allocated"),
            ("deallocation", "deallocations", "num_frees", "freed_bytes", "freed"),
        ):
            rose = change if kind == "allocation" else -change
            count, was = getattr(now, blocks), getattr(last, blocks)
            size, before = getattr(now, freed), getattr(last, freed)
            if count is None or was is None or size is None or before is None:
                count, was, size, before = int(rose > 0), 0, max(0, rose), 0
            stats[f"total_{name}"] += count - was
            stats[f"total_{kind}_bytes"] += size - before
            if rose > 0:
                self._add_event(kind, change, f"Memory {word}: {format_bytes(rose)}", now=now, memory=memory)

    # ---- alerts ----

    def _judge(self, now: Reading, peaks: Peaks, memory: DeviceMemory | None, change: int) -> None:
        """Compares a sample with the thresholds."""
        limits = self.thresholds
        if self.total_memory > 0:
            # Cached memory of the pool is reusable, so it does not count as used.
            hidden = 0 if memory is None else max(0, memory.used - now.reserved)
            percent = (peaks.allocated + hidden) / self.total_memory * 100
            found = {"usage_percent": percent}
            critical, warning = limits["memory_critical_percent"], limits["memory_warning_percent"]
            is_critical = self._alert(
                "critical", "critical", percent, critical, f"CRITICAL: Memory usage at {percent:.1f}%", found, change
            )
            if not is_critical and percent < critical:
                text = f"WARNING: Memory usage at {percent:.1f}%"
                self._alert("warning", "warning", percent, warning, text, found, change)
        growth = self._rules.growth(now.allocated, time.monotonic())
        if growth is not None:
            text = f"Memory keeps growing: {format_bytes(growth)} per minute"
            self._alert(
                "growth",
                "warning",
                growth,
                limits["memory_leak_threshold"],
                text,
                {"growth_per_minute": growth},
                change,
            )
        if now.inactive_split is not None and now.reserved > 0:
            part = now.inactive_split / now.reserved
            text = f"High fragmentation: {part:.1%}"
            limit = limits["fragmentation_threshold"]
            self._alert("fragmentation", "warning", part, limit, text, {"fragmentation": part}, change)

    def _alert(
        self, name: str, kind: str, value: float, above: float, text: str, metadata: dict[str, Any], change: int
    ) -> bool:
        turned = self._rules.update(name, value, above, time.monotonic())
        if turned == "raised":
            self._add_event(kind, change, text, metadata)
        elif turned == "cleared":
            self._add_event("cleared", change, f"{name} is over", metadata)
        return turned == "raised"

    def add_alert_callback(self, callback: Callable[[TrackingEvent], None]) -> None:
        """Calls `callback` with every alert, on the thread that found it; logs the callback's exceptions."""
        self.alert_callbacks.append(_arguments.function("callback", callback))

    def remove_alert_callback(self, callback: Callable[[TrackingEvent], None]) -> None:
        """Unregisters the callback."""
        if callback in self.alert_callbacks:
            self.alert_callbacks.remove(callback)

    def set_threshold(self, threshold_name: str, value: float) -> None:
        """Changes one of `thresholds`. Raises `ValueError` for an unknown name."""
        if threshold_name not in self.thresholds:
            raise ValueError(f"Unknown threshold: {threshold_name}")
        self.thresholds[threshold_name] = _arguments.number("value", value)

    # ---- events ----

    def _add_event(
        self,
        event_type: str,
        memory_change: int,
        context: str,
        metadata: dict[str, Any] | None = None,
        *,
        now: Reading | None = None,
        memory: DeviceMemory | None = None,
    ) -> None:
        if now is None:
            now, memory = self._read()
        event = TrackingEvent(
            timestamp=time.time(),
            event_type=event_type,
            memory_allocated=now.allocated,
            memory_reserved=now.reserved,
            memory_change=memory_change,
            device_id=self.source.device_index,
            context=context,
            metadata=metadata,
            active_memory=now.active,
            inactive_memory=now.inactive,
            inactive_split=now.inactive_split,
            device_used=None if memory is None else memory.used,
            device_free=None if memory is None else memory.total - memory.used,
            device_total=None if memory is None else memory.total,
            backend=self.backend,
            **self.distributed_identity,
        )
        with self._events_lock:
            self.events.append(event)
            self._recorder.record_event(event.to_dict())
            if event_type not in _ALERTS:
                return
            self._alerts.append(event)
            self.stats["alert_count"] += 1
        for callback in list(self.alert_callbacks):
            try:
                callback(event)
            except Exception as error:
                logger.warning("an alert callback failed: %s", error)

    def _read(self) -> tuple[Reading, DeviceMemory | None]:
        """Returns the memory in use now, or empty values if the device no longer answers, as after some CUDA errors."""
        try:
            return self.source.read(), self.source.device_memory()
        except Exception as error:
            logger.warning("%s does not answer: %s", self.device, error)
            return Reading(), None

    def get_events(
        self, event_type: str | None = None, last_n: int | None = None, since: float | None = None
    ) -> list[TrackingEvent]:
        """Returns the kept events, filtered by type and start time; `last_n` limits them to the newest."""
        newest = 0 if last_n is None else _arguments.at_least("last_n", last_n, 0)
        since = None if since is None else _arguments.number("since", since)
        with self._events_lock:
            events = list(self.events)
        if event_type:
            events = [event for event in events if event.event_type == event_type]
        if since:
            events = [event for event in events if event.timestamp >= since]
        return events[-newest:]

    def get_alerts(self, last_n: int | None = None) -> list[TrackingEvent]:
        """Returns warnings, critical alerts and errors, which samples do not displace."""
        newest = 0 if last_n is None else _arguments.at_least("last_n", last_n, 0)
        with self._events_lock:
            alerts = list(self._alerts)
        return alerts[-newest:]

    def get_memory_timeline(self, interval: float = 1.0) -> dict[str, list[Any]]:
        """Returns the last event of every `interval` seconds, in columns."""
        return timeline(self.get_events(), interval)

    def hidden_memory(self) -> dict[str, Any]:
        """Classifies device memory outside the pool; see `vramscope.profiler.hidden_memory`."""
        return hidden_memory(self.get_events())

    def export_events(self, filename: str | PathLike[str], format: str = "csv") -> None:  # noqa: A002
        """Writes the events as `csv` or `json` with gpumemprof's keys. Raises `ValueError` for other formats."""
        write_events(filename, self.get_events(), format, self.sampling_interval)

    def clear_events(self) -> None:
        """Clears events and alerts, and restarts the statistics."""
        with self._events_lock:
            self.events.clear()
            self._alerts.clear()
            started = self.stats["tracking_start_time"]
            self._reset_stats()
            self.stats["tracking_start_time"] = started

    def _reset_stats(self) -> None:
        self.stats.update(
            peak_memory=0,
            peak_device_used=0,
            total_allocations=0,
            total_deallocations=0,
            total_allocation_bytes=0,
            total_deallocation_bytes=0,
            alert_count=0,
            tracking_start_time=None,
            last_memory_check=0,
        )

    def get_statistics(self) -> dict[str, Any]:
        """Returns sums since the start or the last `clear_events`.

        Allocation counts are the allocator's own, if it counts.
        """
        now, memory = self._read()
        with self._events_lock:
            stats, events = dict(self.stats), list(self.events)
        used = now.allocated if memory is None else memory.used
        allocations, frees = stats["total_allocations"], stats["total_deallocations"]
        stats.update(
            total_events=len(events),
            events_last_hour=sum(event.timestamp > time.time() - 3600 for event in events),
            backend=self.backend,
            oom_flight_recorder_enabled=self._recorder.config.enabled,
            last_oom_dump_path=self.last_oom_dump_path,
            current_memory_allocated=now.allocated,
            current_memory_reserved=now.reserved,
            memory_utilization_percent=used / self.total_memory * 100 if self.total_memory else 0,
            average_allocation_size=stats["total_allocation_bytes"] / max(allocations, 1),
            average_deallocation_size=stats["total_deallocation_bytes"] / max(frees, 1),
            missed_samples=0 if self._monitor is None else self._monitor.missed,
        )
        if stats["tracking_start_time"]:
            seconds = time.time() - stats["tracking_start_time"]
            stats.update(
                tracking_duration_seconds=seconds,
                allocations_per_second=allocations / max(seconds, 1),
                bytes_allocated_per_second=stats["total_allocation_bytes"] / max(seconds, 1),
            )
        return stats

    # ---- phases ----

    def enter_phase(self, name: str, *, metadata: Mapping[str, Any] | None = None) -> PhaseHandle:
        """Begins a phase inside this thread's innermost phase; closing the returned handle ends it.

        Raises `VramscopeError` if tracking does not run, and `ValueError` for a blank name.
        """
        if not self.is_tracking:
            raise VramscopeError("Tracking must be active before entering a phase.")
        phase = self._phases.enter(name, metadata, self._leave_phase)
        said = f"Phase entered: {phase.phase_path}"
        self._add_event("phase_enter", 0, said, {"phase_scope": phase.to_dict("enter")})
        return phase

    def _leave_phase(self, phase: PhaseHandle) -> None:
        self._phases.leave(phase)
        said = f"Phase exited: {phase.phase_path}"
        self._add_event("phase_exit", 0, said, {"phase_scope": phase.to_dict("exit")})

    def phase(self, name: str, *, metadata: Mapping[str, Any] | None = None) -> PhaseHandle:
        """Like `enter_phase`, for `with`."""
        return self.enter_phase(name, metadata=metadata)

    # ---- out of memory ----

    def handle_exception(
        self, exc: BaseException, context: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> str | None:
        """Writes a bundle if `exc` is an out of memory, and returns its folder; otherwise returns `None`.

        It never raises.
        """
        found = classify_oom_exception(exc)
        if not found.is_oom or found.reason is None or not self._recorder.config.enabled:
            return None
        try:
            now, memory = self._read()
            details: dict[str, Any] = {
                "tracker_stats": self.get_statistics(),
                "total_memory_bytes": self.total_memory,
                "sampling_interval_s": self.sampling_interval,
                **self.distributed_identity,
                **dict(metadata or {}),
                "sample_allocated_bytes": now.allocated,
                "sample_reserved_bytes": now.reserved,
                "sample_used_bytes": None if memory is None else memory.used,
                "sample_free_bytes": None if memory is None else memory.total - memory.used,
                "sample_total_bytes": None if memory is None else memory.total,
                "sample_device_id": self.source.device_index,
                "outside_of_the_pool": self._outside(),
            }
            phases = [phase.phase_path for phase in self._phases.innermost()]
            if phases:
                details["phases"] = phases
            said = f"OOM detected ({found.reason})"
            self._add_event("error", 0, said, {"oom_reason": found.reason}, now=now, memory=memory)
            path = self._recorder.dump(
                reason=found.reason, exception=exc, context=context, backend=self.backend, metadata=details
            )
        except Exception as own:
            logger.warning("could not write the bundle of an out of memory: %s", own)
            return None
        self.last_oom_dump_path = path
        return path

    def _outside(self) -> dict[str, Any] | None:
        """Returns the owners of memory outside the pool; `None` if the device no longer answers."""
        try:
            outside = self.source.outside()
        except Exception as error:
            logger.warning("%s does not answer: %s", self.device, error)
            return None
        return {**vars(outside), "processes": [process._asdict() for process in outside.processes]}

    @contextmanager
    def capture_oom(self, context: str = "runtime", metadata: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Writes a bundle if the block runs out of memory; the exception propagates unchanged."""
        wanted = self.enable_native_cuda_history and self._recorder.config.enabled
        with native_history(self.native_history_max_entries if wanted else 0):
            try:
                yield
            except Exception as error:
                path = self.handle_exception(error, context=context, metadata=metadata)
                if path:
                    logger.error("out of memory in %s: see %s", context, path)
                raise

    def __enter__(self) -> MemoryTracker:
        """Starts to track."""
        self.start_tracking()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops tracking."""
        self.stop_tracking()
