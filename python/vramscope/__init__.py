"""See, explain and fix GPU memory.

Importing this package imports neither PyTorch nor CuPy nor IPython; each is imported on first use.
"""

from __future__ import annotations

from vramscope._native import ReadError, Recording, Table, VramscopeError, __version__
from vramscope._recording import read

# Importing `typing` takes longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vramscope._explain import explain, explain_errors
    from vramscope._live import serve
    from vramscope.cupy import DebugPrintHook, LineProfileHook, MemoryHook
    from vramscope.function_hooks import CupyMemoryProfileHook
    from vramscope.phantom import fit
    from vramscope.profiler import (
        GPUMemoryProfiler,
        MemoryProfiler,
        MemorySnapshot,
        MemoryTracker,
        MemoryWatchdog,
        OOMFlightRecorder,
        OOMFlightRecorderConfig,
        ProfileResult,
        SavedResults,
        TrackingEvent,
        capture_oom,
        classify_oom_exception,
        clear_global_profiler,
        clear_results,
        get_global_profiler,
        get_profile_results,
        get_summary,
        profile_context,
        profile_function,
        set_global_profiler,
        start_monitoring,
        stop_monitoring,
    )
    from vramscope.profiler import (
        ProfiledModule as ProfiledModule,
    )

__all__ = [
    "CupyMemoryProfileHook",
    "DebugPrintHook",
    "GPUMemoryProfiler",
    "LineProfileHook",
    "MemoryHook",
    "MemoryProfiler",
    "MemorySnapshot",
    "MemoryTracker",
    "MemoryWatchdog",
    "OOMFlightRecorder",
    "OOMFlightRecorderConfig",
    "ProfileResult",
    "ReadError",
    "Recording",
    "SavedResults",
    "Table",
    "TrackingEvent",
    "VramscopeError",
    "__version__",
    "capture_oom",
    "classify_oom_exception",
    "clear_global_profiler",
    "clear_results",
    "explain",
    "explain_errors",
    "fit",
    "get_global_profiler",
    "get_profile_results",
    "get_summary",
    "profile_context",
    "profile_function",
    "read",
    "serve",
    "set_global_profiler",
    "start_monitoring",
    "stop_monitoring",
]


def __getattr__(name: str) -> Any:
    if name == "serve":
        from vramscope._live import serve

        return serve
    if name in ("explain", "explain_errors"):
        from vramscope import _explain

        return getattr(_explain, name)
    if name in ("fit", "phantom"):
        import importlib

        phantom = importlib.import_module("vramscope.phantom")
        return phantom if name == "phantom" else phantom.fit
    if name in ("DebugPrintHook", "LineProfileHook", "MemoryHook"):
        from vramscope import cupy

        return getattr(cupy, name)
    if name == "CupyMemoryProfileHook":
        from vramscope.function_hooks import CupyMemoryProfileHook

        return CupyMemoryProfileHook
    # `ProfiledModule` subclasses a PyTorch class, so `import *` leaves it out.
    if name in __all__ or name == "ProfiledModule":
        from vramscope import profiler

        return getattr(profiler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics; `%load_ext vramscope` calls this."""
    from vramscope.integrations.ipython import load_ipython_extension

    load_ipython_extension(shell)
