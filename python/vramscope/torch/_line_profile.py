"""PyTorch's memory by source line."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import torch

from vramscope import _arguments
from vramscope._line_profile import LineReport
from vramscope._native import VramscopeError
from vramscope.torch._pool import has_pool
from vramscope.torch._record import MAX_ENTRIES

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class LineProfileHook(LineReport):
    """Counts the GPU memory of a `with` block by source line: CuPy's report of this name, for PyTorch.

    Used bytes are bytes requested from PyTorch, and acquired bytes are bytes that its allocator took from the device.
    Frees do not count. The hook reads PyTorch's history of all devices and threads. It turns the history on for the
    block, or shares it if it is already on. Allocations of threads without Python code, as in a backward pass, count
    only for `_root`.

    If vramscope's pool is the allocator (`use_pool`), the hook is a `vramscope.MemoryHook` on this pool. Used bytes are
    then rounded up to multiples of 512, as in CuPy's hook.

    Args:
        max_depth: The number of levels to print, including the root; 0 prints all levels.
        max_entries: The number of newest events to keep, if the history is not already on. If the block has more, a
            line on stderr reports it.

    Raises:
        VramscopeError: On entering, if PyTorch sees no GPU.
    """

    name = "LineProfileHook"

    def __init__(self, max_depth: int = 0, *, max_entries: int = MAX_ENTRIES) -> None:
        super().__init__(max_depth)
        self._max_entries = _arguments.at_least("max_entries", max_entries, 1)
        self._owns_history = False
        self._since_us = 0
        self._is_in_pool = False

    def __enter__(self) -> Self:
        """Begins to count."""
        if not torch.cuda.is_available():
            raise VramscopeError("PyTorch sees no GPU here: there is no memory to watch")
        torch.cuda.init()
        if has_pool():
            from vramscope._native import TorchPool

            self._is_in_pool = TorchPool.add_hook(self)
            return self
        self._owns_history = not torch._C._cuda_isHistoryEnabled()
        if self._owns_history:
            # The report needs no stacks of frees.
            torch.cuda.memory._record_memory_history(max_entries=self._max_entries, context="alloc", stacks="python")
        self._since_us = time.time_ns() // 1000
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Counts the events of the block."""
        if self._is_in_pool:
            from vramscope._native import TorchPool

            self._is_in_pool = False
            TorchPool.remove_hook(self.name)
            return
        try:
            self._count()
        except Exception as failure:
            # Do not hide an exception of the block.
            if error is None:
                raise
            print(f"vramscope: the block was not counted: {failure}", file=sys.stderr)

    def _count(self) -> None:
        # `vramscope phantom run` patches `_snapshot` to return less; `__wrapped__` is PyTorch's own function.
        snapshot: Any = getattr(torch.cuda.memory._snapshot, "__wrapped__", torch.cuda.memory._snapshot)
        traces: list[list[dict[str, Any]]] = snapshot()["device_traces"]
        if self._owns_history:
            torch.cuda.memory._record_memory_history(enabled=None)
        for events in traces:
            if self._owns_history and len(events) >= self._max_entries:
                print(f"vramscope: counted only the last {len(events):,} events of the block", file=sys.stderr)
            self.count_history(events, self._since_us)
