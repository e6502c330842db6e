"""PyTorch's memory history for the duration of a block."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vramscope.profiler._monitor import logger

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def native_history(max_entries: int) -> Iterator[None]:
    """Records PyTorch's history inside the block, unless the program already records it; 0 records nothing."""
    begun = max_entries > 0 and _begin(max_entries)
    try:
        yield
    finally:
        if begun:
            _torch().cuda.memory._record_memory_history(enabled=None)


def _torch() -> Any:
    return sys.modules["torch"]


def _begin(max_entries: int) -> bool:
    if "torch" not in sys.modules:
        return False
    try:
        if _torch()._C._cuda_isHistoryEnabled():
            return False
        from vramscope.torch._history import stack_context

        _torch().cuda.memory._record_memory_history(max_entries=max_entries, context=stack_context())
    except Exception as error:
        logger.warning("cannot record PyTorch's history: %s", error)
        return False
    return True
