"""How many bytes the program has taken so far, from all allocators that it uses."""

import sys
import threading
from typing import Any, NamedTuple

from vramscope._native import VramscopeError
from vramscope.cupy import MemoryHook


class Taken(NamedTuple):
    """Bytes since some moment; only differences mean something."""

    used: int
    """Bytes that the program took from an allocator."""
    acquired: int
    """Bytes that the allocator took from the device."""

    def since(self, before: "Taken") -> "Taken":
        """Gives what was taken after `before`."""
        return Taken(self.used - before.used, self.acquired - before.acquired)


class _CumulativeHook(MemoryHook):
    """Adds up what CuPy's pools are asked for on a thread, as Chainer does: before it is known whether they have it."""

    def __init__(self, counters: "Counters") -> None:
        # Several may count at a time.
        self.name = f"CupyMemoryCumulativeHook-{id(counters)}"
        self.used = 0
        self.acquired = 0

    def malloc_preprocess(self, **kwargs: Any) -> None:
        self.used += kwargs["mem_size"]

    def alloc_preprocess(self, **kwargs: Any) -> None:
        self.acquired += kwargs["mem_size"]


class Counters:
    """Counts while it is entered, as often as it is entered.

    CuPy's pools are counted on the thread that enters, because CuPy's hooks are a thread's; PyTorch's allocator counts
    for all threads and devices itself.
    """

    def __init__(self) -> None:
        self._cupys = _CumulativeHook(self)
        self._threads = threading.local()

    def enter(self) -> None:
        """Begins to count. Raises `VramscopeError` where neither CuPy nor PyTorch is imported."""
        if "cupy" not in sys.modules and "torch" not in sys.modules:
            raise VramscopeError("there is no memory to count: import torch or cupy before the hook is used")
        depth = getattr(self._threads, "depth", 0)
        if depth == 0 and "cupy" in sys.modules:
            self._cupys.__enter__()
            self._threads.hooked = True
        self._threads.depth = depth + 1

    def exit(self) -> None:
        """Ends what `enter` began, on the same thread."""
        self._threads.depth -= 1
        if self._threads.depth == 0 and getattr(self._threads, "hooked", False):
            self._threads.hooked = False
            self._cupys.__exit__()

    def now(self) -> Taken:
        """Gives the bytes that were taken so far."""
        used, acquired = self._cupys.used, self._cupys.acquired
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            for device in range(torch.cuda.device_count()):
                statistics = torch.cuda.memory_stats_as_nested_dict(device)
                if statistics:
                    used += statistics["allocated_bytes"]["all"]["allocated"]
                    acquired += statistics["reserved_bytes"]["all"]["allocated"]
        return Taken(used, acquired)
