"""vramscope's memory pool as PyTorch's allocator."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import torch

from vramscope._native import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vramscope._native import TorchPool, TorchPoolPart

_VARIABLES = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


class _Requests:
    """Requests with their own rules, cache and plan."""

    def __init__(self, native: TorchPool | TorchPoolPart) -> None:
        self._native = native

    def stats(self, device: torch.device | str | int | None = None) -> dict[str, Any]:
        """Returns the statistics of a device by the names of `torch.cuda.memory_stats`.

        The peaks of the small and the large pool alone, and peak numbers of blocks, are not counted, and absent.
        """
        return dict(_flat(self._native.stats(_index(device))))

    def plan_use(self, device: torch.device | str | int | None = None) -> dict[str, tuple[int, int]]:
        """Returns how the requests of a device were served: numbers of requests and their bytes, by outcome.

        `planned` requests are at their planned addresses. All others were served by the caching rules: the plan leaves
        them to these (`left`), they differ from the plan (`differing`), their place was `in_use`, or there was
        `no_memory` for it. Without a plan, the result is empty.
        """
        return self._native.plan_use(_index(device))

    def plan_waits(self, device: torch.device | str | int | None = None) -> int:
        """Returns the number of requests of a device that made their streams wait for others.

        These are requests that got memory of the plan which another stream used last. The count is 0 without a plan
        whose streams share memory.
        """
        return self._native.plan_waits(_index(device))

    def record_history(self, max_entries: int = 1_000_000) -> None:
        """Records every request from now on, without stacks, and at most `max_entries` events of each device.

        0 stops the recording.
        """
        self._native.record_history(max_entries)

    def dump_snapshot(self, path: str | os.PathLike[str]) -> None:
        """Writes the segments, blocks and recorded events in the format of `torch.cuda.memory._dump_snapshot`."""
        self._native.dump_snapshot(path)


class Pool(_Requests):
    """vramscope's pool under PyTorch, returned by `use_pool`."""

    def __init__(self, native: TorchPool) -> None:
        super().__init__(native)
        self._whole = native


class MemPool(_Requests):
    """A pool for a part of a program, returned by `mem_pool`. Its requests are those within `with pool:`."""

    def __init__(self, native: TorchPoolPart, all_threads: bool) -> None:
        super().__init__(native)
        self._part = native
        self._all_threads = all_threads

    def __enter__(self) -> MemPool:
        self._part.enter(self._all_threads)
        return self

    def __exit__(self, *exception: object) -> None:
        self._part.leave(self._all_threads)

    def empty_cache(self) -> None:
        """Releases the free memory of this pool."""
        self._part.empty_cache()


# The pool of this process, and PyTorch's object for its functions.
_pool: Pool | None = None
_allocator: Any = None


def use_pool(
    settings: str | None = None,
    *,
    plan: str | os.PathLike[str] | None = None,
    share_streams: bool = False,
    check: bool = False,
) -> Pool:
    """Makes vramscope's pool the allocator of PyTorch's CUDA tensors, until the process ends.

    The pool has the rules of the installed PyTorch release. `settings` has the form of PYTORCH_CUDA_ALLOC_CONF; by
    default, the pool has the settings of that variable. Call this function before the program uses a GPU.

    `plan` is a file of `vramscope plan`. Requests that follow it get their planned addresses, and all others are served
    by the rules. `plan="auto"` plans the step that the program repeats, once it has repeated it; `expandable_segments`
    is then on, if the settings do not turn it off. `check=True` compares each block with all others in use, and raises
    RuntimeError if two overlap, or if a stream gets memory that another stream used last without waiting for it.

    `share_streams=True` lets the streams share the memory of `plan="auto"`, if the plan then has fewer bytes. A file
    has this property from `vramscope plan --share-streams`. A stream that gets memory which another stream used last
    waits for it on the GPU, so their work may overlap less. Streams of other libraries must then exist until the
    process ends.

    `torch.cuda.memory_stats`, `memory_summary` and similar functions report on the pool. PyTorch refuses these for
    every other allocator: `torch.cuda.MemPool`, `_record_memory_history` and sharing of tensors with other processes.
    `mem_pool` takes the place of `torch.cuda.MemPool`.

    Raises VramscopeError if PyTorch uses a GPU already, if this build of PyTorch does not support other allocators, or
    on another system than Linux.
    """
    global _pool
    if torch.cuda.is_initialized():
        raise VramscopeError("PyTorch has used a GPU already; call use_pool before the first tensor on a GPU")
    native, allocator = _native_pool(settings, plan, share_streams, check)
    try:
        torch._C._cuda_changeCurrentAllocator(allocator)
    except RuntimeError as error:
        raise VramscopeError(f"PyTorch does not accept the pool: {error}") from error
    _report(native)
    _pool = Pool(native)
    return _pool


def has_pool() -> bool:
    """Whether vramscope's pool is PyTorch's allocator in this process."""
    return _pool is not None


def mem_pool(
    settings: str | None = None,
    *,
    plan: str | os.PathLike[str] | None = None,
    share_streams: bool = False,
    all_threads: bool = False,
) -> MemPool:
    """Returns a pool for a part of a program, like `torch.cuda.MemPool`: requests within `with pool:` are its own.

    Call `use_pool` first. `settings`, `plan` and `share_streams` are those of `use_pool`, and hold for this part of the
    program only. No memory moves between the pool and the rest of the program, except when a request would fail: then
    all others release their free memory. Tensors of the pool may live longer than `with pool:`. Requests during the
    capture of a CUDA graph belong to the graph.

    The pool serves the thread that enters it; with `all_threads=True`, all threads that are in no pool of their own,
    such as those of a backward pass.

    Raises VramscopeError without `use_pool`.
    """
    if _pool is None:
        raise VramscopeError("call vramscope.torch.use_pool() at the start of the program; or see segment_allocator()")
    torch.cuda.init()
    return MemPool(_pool._whole.part(_settings(settings), plan, share_streams), all_threads)


def segment_allocator(settings: str | None = None, *, check: bool = False) -> Any:
    """Returns an allocator for `torch.cuda.MemPool(allocator)`, if PyTorch's own allocator serves the program.

    PyTorch divides the memory of such a pool into blocks. It takes the segments from vramscope's pool, which has the
    rules of `settings`, and returns them to it. All pools of a process with this allocator share the free segments.

    Raises VramscopeError if the process has a pool already.
    """
    global _allocator
    if _allocator is None:
        torch.cuda.init()
        native, _allocator = _native_pool(settings, None, False, check)
        native.serve_segments(torch.cuda.device_count())
    elif settings is not None or check:
        raise VramscopeError("this process has a pool already")
    return _allocator


def _native_pool(
    settings: str | None, plan: str | os.PathLike[str] | None, share_streams: bool, check: bool
) -> tuple[TorchPool, Any]:
    """Creates the pool of this process, and PyTorch's object for its functions."""
    try:
        from vramscope._native import TorchPool
    except ImportError:
        raise VramscopeError("vramscope's pool for PyTorch works on Linux only") from None
    native = TorchPool(_release(), _settings(settings), plan, share_streams, check)
    functions = native.functions()
    allocator = torch._C._cuda_customAllocator(functions.pop("malloc"), functions.pop("free"))
    for setter, address in functions.items():
        getattr(allocator, setter)(address)
    return native, allocator


def _settings(settings: str | None) -> str:
    if settings is None:
        settings = next((os.environ[name] for name in _VARIABLES if name in os.environ), "")
    return settings


def _index(device: torch.device | str | int | None) -> int:
    index: int = torch.cuda._utils._get_device_index(device, optional=True)
    return index


def _flat(stats: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Returns the statistics by the names of `torch.cuda.memory_stats`, such as `segment.all.current`."""
    for name in sorted(stats):
        value = stats[name]
        yield from _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]


def _release() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is None:
        raise VramscopeError(f"the release of PyTorch {torch.__version__} is not known")
    return int(found[1]), int(found[2])


def _report(native: TorchPool) -> None:
    """Answers PyTorch's questions about its allocator, which it refuses for every allocator but its own."""

    def memory_summary(device: torch.device | str | int | None = None, abbreviated: bool = False) -> str:
        return native.summary(_index(device), abbreviated)

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
