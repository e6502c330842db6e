"""Profiles GPU memory of functions and blocks, with monitoring, leaks and alerts: gpumemprof's API for PyTorch.

`GPUMemoryProfiler` profiles functions and blocks; `MemoryTracker` watches a device; `profile_function` and
`profile_context` use a global profiler. PyTorch is imported only when a profiler is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vramscope.profiler._events import TrackingEvent
from vramscope.profiler._flight_recorder import (
    OOMExceptionClassification,
    OOMFlightRecorder,
    OOMFlightRecorderConfig,
    capture_oom,
    classify_oom_exception,
)
from vramscope.profiler._global import (
    clear_global_profiler,
    clear_results,
    get_global_profiler,
    get_profile_results,
    get_summary,
    profile_context,
    profile_function,
    profile_model_training,
    set_global_profiler,
    start_monitoring,
    stop_monitoring,
)
from vramscope.profiler._hidden import hidden_memory
from vramscope.profiler._leaks import LeakDetector, LeakSuspect
from vramscope.profiler._memory_profiler import MemoryProfiler
from vramscope.profiler._meter import MemoryMeter
from vramscope.profiler._outside import GpuProcess, OutsideMemory
from vramscope.profiler._peaks import PeakBook, PeakScope
from vramscope.profiler._phases import PhaseHandle
from vramscope.profiler._profiler import GPUMemoryProfiler, ProfileContext
from vramscope.profiler._result import ProfileResult, format_bytes
from vramscope.profiler._saved import SavedResults
from vramscope.profiler._snapshot import MemorySnapshot
from vramscope.profiler._sources import CupySource, DeviceMemory, MemorySource, Peaks, Reading, TorchSource
from vramscope.profiler._tracker import MemoryTracker
from vramscope.profiler._watchdog import MemoryWatchdog

if TYPE_CHECKING:
    from vramscope.profiler._module import ProfiledModule as ProfiledModule

__all__ = [
    "CupySource",
    "DeviceMemory",
    "GPUMemoryProfiler",
    "GpuProcess",
    "LeakDetector",
    "LeakSuspect",
    "MemoryMeter",
    "MemoryProfiler",
    "MemorySnapshot",
    "MemorySource",
    "MemoryTracker",
    "MemoryWatchdog",
    "OOMExceptionClassification",
    "OOMFlightRecorder",
    "OOMFlightRecorderConfig",
    "OutsideMemory",
    "PeakBook",
    "PeakScope",
    "Peaks",
    "PhaseHandle",
    "ProfileContext",
    "ProfileResult",
    "Reading",
    "SavedResults",
    "TorchSource",
    "TrackingEvent",
    "capture_oom",
    "classify_oom_exception",
    "clear_global_profiler",
    "clear_results",
    "format_bytes",
    "get_global_profiler",
    "get_profile_results",
    "get_summary",
    "hidden_memory",
    "profile_context",
    "profile_function",
    "profile_model_training",
    "set_global_profiler",
    "start_monitoring",
    "stop_monitoring",
]


def __getattr__(name: str) -> Any:
    # It subclasses a PyTorch class.
    if name == "ProfiledModule":
        from vramscope.profiler._module import ProfiledModule

        return ProfiledModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
