"""Memory of PyTorch by line of the program."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import torch

from vramscope import _arguments
from vramscope._line_profile import LineReport
from vramscope._native import VramscopeError
from vramscope.torch._record import MAX_ENTRIES

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class LineProfileHook(LineReport):
    """Which line of a `with` block used how much GPU memory: the report of CuPy's hook of this name, for PyTorch.

    Used bytes are what PyTorch was asked for, acquired bytes what its allocator took from the device for it; frees do
    not count. It reads PyTorch's history, on all devices and threads: turned on for the block, or shared where it is on
    already. What is allocated by threads without Python code, as by a backward pass, counts for `_root` alone.

    Args:
        max_depth: The number of levels that are printed, the root among them; 0 is no bound.
        max_entries: How many events of the block are kept, where the history is not on already. Of longer blocks the
            newest count, and a line on stderr says so.

    Raises:
        VramscopeError: On entering: this PyTorch has no GPU memory to watch.
    """

    name = "LineProfileHook"

    def __init__(self, max_depth: int = 0, *, max_entries: int = MAX_ENTRIES) -> None:
        super().__init__(max_depth)
        self._max_entries = _arguments.at_least("max_entries", max_entries, 1)
        self._owns_history = False
        self._since_us = 0

    def __enter__(self) -> Self:
        """Begins to count."""
        if not torch.cuda.is_available():
            raise VramscopeError("PyTorch sees no GPU here: there is no memory to watch")
        torch.cuda.init()
        self._owns_history = not torch._C._cuda_isHistoryEnabled()
        if self._owns_history:
            # Stacks of frees are not needed.
            torch.cuda.memory._record_memory_history(max_entries=self._max_entries, context="alloc", stacks="python")
        self._since_us = time.time_ns() // 1000
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Counts what the block did."""
        try:
            self._count()
        except Exception as failure:
            # The program's own exception is the one to see.
            if error is None:
                raise
            print(f"vramscope: what the block did was not counted: {failure}", file=sys.stderr)

    def _count(self) -> None:
        # A phantom GPU gives programs a part of the history only; this is PyTorch's own function.
        snapshot: Any = getattr(torch.cuda.memory._snapshot, "__wrapped__", torch.cuda.memory._snapshot)
        traces: list[list[dict[str, Any]]] = snapshot()["device_traces"]
        if self._owns_history:
            torch.cuda.memory._record_memory_history(enabled=None)
        for events in traces:
            if self._owns_history and len(events) >= self._max_entries:
                print(f"vramscope: only the last {len(events):,} events of the block are counted", file=sys.stderr)
            self.count_history(events, self._since_us)
