"""`MemoryProfiler`: gpumemprof's class with short method names, a wrapper of `GPUMemoryProfiler`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vramscope import _arguments
from vramscope.profiler._profiler import GPUMemoryProfiler, ProfileContext
from vramscope.profiler._saved import SavedResults

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from vramscope.profiler._module import ProfiledModule
    from vramscope.profiler._result import ProfileResult


class MemoryProfiler:
    """Profiles functions, blocks and modules, and saves the results."""

    def __init__(self, device: Any = None, *, profiler: GPUMemoryProfiler | None = None) -> None:
        self.profiler = GPUMemoryProfiler(device=device) if profiler is None else profiler

    def start_monitoring(self, interval: float = 0.1) -> None:
        """See `GPUMemoryProfiler.start_monitoring`."""
        self.profiler.start_monitoring(interval)

    def stop_monitoring(self) -> None:
        """See `GPUMemoryProfiler.stop_monitoring`."""
        self.profiler.stop_monitoring()

    def profile(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> ProfileResult:
        """See `GPUMemoryProfiler.profile_function`."""
        return self.profiler.profile_function(func, *args, **kwargs)

    def context(self, name: str = "context") -> ProfileContext:
        """See `GPUMemoryProfiler.profile_context`."""
        return self.profiler.profile_context(name)

    def wrap_module(self, module: Any, name: str | None = None) -> ProfiledModule:
        """Wraps a module in a `ProfiledModule` of this profiler."""
        from vramscope.profiler._module import ProfiledModule

        return ProfiledModule(module, name=name, profiler=self.profiler)

    def get_summary(self) -> dict[str, Any]:
        """See `GPUMemoryProfiler.get_summary`."""
        return self.profiler.get_summary()

    def clear(self) -> None:
        """See `GPUMemoryProfiler.clear_results`."""
        self.profiler.clear_results()

    def save_results(self, filename: str | PathLike[str]) -> None:
        """Writes summary, results and snapshots as JSON; `SavedResults.read` reads them back as typed objects."""
        SavedResults.of(self.profiler).write(filename)

    def load_results(self, filename: str | PathLike[str]) -> Any:
        """Returns the contents of a file written by `save_results`, as dictionaries and lists."""
        with open(_arguments.path("filename", filename), encoding="utf-8") as file:
            return json.load(file)

    def __enter__(self) -> MemoryProfiler:
        """Returns the profiler."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stops monitoring."""
        self.stop_monitoring()
