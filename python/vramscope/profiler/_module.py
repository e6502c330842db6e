"""`ProfiledModule`: a module with profiled forward passes. Importing it imports PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vramscope.profiler._global import get_global_profiler

if TYPE_CHECKING:
    from vramscope.profiler._profiler import GPUMemoryProfiler


class ProfiledModule(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Wraps a module and profiles each forward pass as `NAME_forward`; NAME defaults to the module's class.

    Missing attributes are looked up in the wrapped module.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        name: str | None = None,
        device: Any = None,
        profiler: GPUMemoryProfiler | None = None,
    ) -> None:
        super().__init__()
        self.module = module
        self.profile_name = name or module.__class__.__name__
        self.profiler = get_global_profiler(device) if profiler is None else profiler

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module's forward pass."""
        with self.profiler.profile_context(f"{self.profile_name}_forward"):
            return self.module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)
