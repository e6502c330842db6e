"""Counts the bytes that the program has allocated so far, over all its allocators."""

import sys
import threading
from typing import Any, NamedTuple

from vramscope._native import VramscopeError
from vramscope.cupy import _pool as cupy_pool
from vramscope.cupy._memory_hook import MemoryHook, cupys_registry


class Taken(NamedTuple):
    """Cumulative bytes; only differences are meaningful."""

    used: int
    """Bytes that the program allocated."""
    acquired: int
    """Bytes that the allocators took from the device."""

    def since(self, before: "Taken") -> "Taken":
        """Returns the bytes taken after `before`; 0 if the program has reset PyTorch's statistics since."""
        return Taken(max(0, self.used - before.used), max(0, self.acquired - before.acquired))


class _CumulativeHook(MemoryHook):
    """Sums requests to CuPy's pools on one thread. As in Chainer, requests count before they succeed or fail."""

    def __init__(self, counters: "Counters") -> None:
        # A unique name: several hooks may count at once.
        self.name = f"CupyMemoryCumulativeHook-{id(counters)}"
        self.used = 0
        self.acquired = 0

    def __enter__(self) -> "_CumulativeHook":
        # vramscope's pool counts by itself.
        cupys_registry()[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        del cupys_registry()[self.name]

    def malloc_preprocess(self, **kwargs: Any) -> None:
        self.used += kwargs["mem_size"]

    def alloc_preprocess(self, **kwargs: Any) -> None:
        self.acquired += kwargs["mem_size"]


class Counters:
    """Counts while entered; can be entered repeatedly.

    CuPy's pools are counted on the entering thread only, because CuPy's hooks are per thread. PyTorch's allocator
    counts all threads and devices itself.
    """

    def __init__(self) -> None:
        self._cupys = _CumulativeHook(self)
        self._threads = threading.local()

    def enter(self) -> None:
        """Begins to count. Raises `VramscopeError` if neither CuPy nor PyTorch is imported."""
        if "cupy" not in sys.modules and "torch" not in sys.modules:
            raise VramscopeError("no allocator to count: import torch or cupy before using the hook")
        depth = getattr(self._threads, "depth", 0)
        if depth == 0 and "cupy" in sys.modules:
            self._cupys.__enter__()
            self._threads.hooked = True
        self._threads.depth = depth + 1

    def exit(self) -> None:
        """Undoes `enter`; must be called on the same thread."""
        self._threads.depth -= 1
        if self._threads.depth == 0 and getattr(self._threads, "hooked", False):
            self._threads.hooked = False
            self._cupys.__exit__()

    def now(self) -> Taken:
        """Returns the bytes taken so far."""
        used, acquired = self._cupys.used, self._cupys.acquired
        torch = sys.modules.get("torch")
        pool_of_torch = sys.modules.get("vramscope.torch._pool")
        if not (pool_of_torch and pool_of_torch.has_pool() and torch and torch.cuda.is_initialized()):
            # PyTorch's statistics are those of its pool, which CuPy may share.
            of_cupy = cupy_pool.taken()
            used, acquired = used + of_cupy[0], acquired + of_cupy[1]
        if torch is not None and torch.cuda.is_initialized():
            for device in range(torch.cuda.device_count()):
                statistics = torch.cuda.memory_stats_as_nested_dict(device)
                if statistics:
                    used += statistics["allocated_bytes"]["all"]["allocated"]
                    acquired += statistics["reserved_bytes"]["all"]["allocated"]
        return Taken(used, acquired)
