"""vramscope's memory pool as PyTorch's allocator."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import torch

from vramscope._native import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope._native import TorchPool

_VARIABLES = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


class Pool:
    """vramscope's pool under PyTorch, returned by `use_pool`."""

    def __init__(self, native: TorchPool) -> None:
        self._native = native

    def stats(self, device: torch.device | str | int | None = None) -> dict[str, Any]:
        """Returns the statistics of a device by the names of `torch.cuda.memory_stats`.

        The peaks of the small and the large pool alone, and peak numbers of blocks, are not counted, and absent.
        """
        stats: dict[str, Any] = torch.cuda.memory_stats(device)
        return stats

    def plan_use(self, device: torch.device | str | int | None = None) -> dict[str, tuple[int, int]]:
        """Returns how the requests of a device were served: numbers of requests and their bytes, by outcome.

        `planned` requests are at their planned addresses. All others were served by the caching rules: the plan leaves
        them to these (`left`), they differ from the plan (`differing`), their place was `in_use`, or there was
        `no_memory` for it. Without a plan, the result is empty.
        """
        return self._native.plan_use(torch.cuda._utils._get_device_index(device, optional=True))

    def record_history(self, max_entries: int = 1_000_000) -> None:
        """Records every request from now on, without stacks, and at most `max_entries` events of each device.

        0 stops the recording.
        """
        self._native.record_history(max_entries)

    def dump_snapshot(self, path: str | os.PathLike[str]) -> None:
        """Writes the segments, blocks and recorded events in the format of `torch.cuda.memory._dump_snapshot`."""
        self._native.dump_snapshot(path)


def use_pool(settings: str | None = None, *, plan: str | os.PathLike[str] | None = None, check: bool = False) -> Pool:
    """Makes vramscope's pool the allocator of PyTorch's CUDA tensors, until the process ends.

    The pool has the rules of the installed PyTorch release. `settings` has the form of PYTORCH_CUDA_ALLOC_CONF; by
    default, the pool has the settings of that variable. Call this function before the program uses a GPU.

    `plan` is a file of `vramscope plan`. Requests that follow it get their planned addresses, and all others are served
    by the rules. `check=True` compares each block with all others in use, and raises RuntimeError if two overlap.

    `torch.cuda.memory_stats`, `memory_summary` and similar functions report on the pool. PyTorch refuses these for
    every other allocator: `MemPool`, `_record_memory_history` and sharing of tensors with other processes.

    Raises VramscopeError if PyTorch uses a GPU already, if this build of PyTorch does not support other allocators, or
    on another system than Linux.
    """
    try:
        from vramscope._native import TorchPool
    except ImportError:
        raise VramscopeError("vramscope's pool for PyTorch works on Linux only") from None
    if torch.cuda.is_initialized():
        raise VramscopeError("PyTorch has used a GPU already; call use_pool before the first tensor on a GPU")
    if settings is None:
        settings = next((os.environ[name] for name in _VARIABLES if name in os.environ), "")
    native = TorchPool(_release(), settings, plan, check)
    functions = native.functions()
    allocator = torch._C._cuda_customAllocator(functions.pop("malloc"), functions.pop("free"))
    for setter, address in functions.items():
        getattr(allocator, setter)(address)
    try:
        torch._C._cuda_changeCurrentAllocator(allocator)
    except RuntimeError as error:
        raise VramscopeError(f"PyTorch does not accept the pool: {error}") from error
    _report(native)
    return Pool(native)


def _release() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is None:
        raise VramscopeError(f"the release of PyTorch {torch.__version__} is not known")
    return int(found[1]), int(found[2])


def _report(native: TorchPool) -> None:
    """Answers PyTorch's questions about its allocator, which it refuses for every allocator but its own."""

    def memory_summary(device: torch.device | str | int | None = None, abbreviated: bool = False) -> str:
        index = torch.cuda._utils._get_device_index(device, optional=True)
        return native.summary(index, abbreviated)

    answers: Mapping[str, Callable[..., Any]] = {
        "_cuda_memoryStats": native.stats,
        "_cuda_resetPeakMemoryStats": native.reset_peak,
        "_accelerator_getDeviceStats": native.stats,
        "_accelerator_resetPeakStats": native.reset_peak,
    }
    for name, answer in answers.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, answer)
    torch.cuda.memory_summary = torch.cuda.memory.memory_summary = memory_summary
