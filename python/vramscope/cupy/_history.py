"""A history of CuPy's pool, as a recording."""

import atexit
import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from vramscope import _arguments
from vramscope._native import PoolHistory, VramscopeError, names_another_format

_under_way: "PoolRecording | None" = None


def record(path: "str | os.PathLike[str]", *, allocator: Callable[[int], Any] | None = None) -> "PoolRecording":
    """Records what CuPy's memory pool does, on every thread and device, until the recording is closed.

        with vramscope.cupy.record("run.vramscope"):
            train()

    Meanwhile CuPy allocates from a new `cupy.cuda.MemoryPool`, which is also what `cupy.get_default_memory_pool()`
    returns, and which has the limit of the pool before. Every request has its Python stack, and so has every free, on
    whichever thread it happens. Events are written four times a second, so that the recording opens however the program
    ends. `vramscope report`, `view` and `replay` open it.

    Args:
        path: The file. Where its name ends in `.pickle` or `.pkl`, it becomes a snapshot in PyTorch's form when the
            recording is closed; until then it is a log beside it, whose name ends in `.pickle.vramscope`. Names of
            other formats, as `run.json`, are refused.
        allocator: Where the pool has its memory from, such as `cupy.cuda.malloc_managed`; the device's memory where it
            is left out.

    Raises:
        VramscopeError: The file cannot be written, or CuPy's pool is being recorded already.
        ImportError: There is no CuPy.
    """
    return PoolRecording(path, allocator=allocator)


def _current_stream() -> int:
    from cupy.cuda import get_current_stream

    stream: int = get_current_stream().ptr
    return stream


def _device_free() -> int:
    """Gives the bytes that the current device has free, for the event of an out of memory."""
    from cupy.cuda import runtime

    free: int = runtime.memGetInfo()[0]
    return free


class PoolRecording:
    """A recording of CuPy's pool: what `record` returns. It ends with `close` or with the block of `with`."""

    path: str
    """The file."""
    pool: Any
    """CuPy's pool that is recorded, a `cupy.cuda.MemoryPool`."""
    malloc: Callable[[int], Any]
    """The pool's `malloc`, for `cupy.cuda.using_allocator`. Only what is allocated through it is recorded."""
    _process: int

    def __init__(self, path: "str | os.PathLike[str]", *, allocator: Callable[[int], Any] | None = None) -> None:
        global _under_way
        import cupy

        if _under_way is not None and _under_way._process == os.getpid():
            raise VramscopeError(f"CuPy's pool is being recorded already, to {_under_way.path}; close that first")
        self.path = _arguments.path("path", path)
        if allocator is not None:
            _arguments.function("allocator", allocator)
        if names_another_format(self.path) and not self.path.endswith(".vramscope"):
            raise VramscopeError(
                f"{self.path}: end the name of a recording in .vramscope, or in .pickle or .pkl for a snapshot; "
                "`vramscope export` writes other formats"
            )
        self._process = os.getpid()
        self._pickle = self.path if self.path.endswith((".pickle", ".pkl")) else None
        log = self.path + ".vramscope" if self._pickle else self.path
        self._history = PoolHistory(log, _current_stream, _device_free)
        base = cupy.cuda.memory._malloc if allocator is None else allocator
        self.pool = cupy.cuda.MemoryPool(functools.partial(self._history.device_malloc, base))
        self.malloc = functools.partial(self._history.malloc, self.pool.malloc)
        self._history.device(cupy.cuda.device.get_device_id())
        self._cupy = cupy
        self._default_pool = cupy.get_default_memory_pool()
        self._allocator = cupy.cuda.get_allocator()
        self.pool.set_limit(size=self._default_pool.get_limit())
        try:
            cupy.cuda.set_allocator(self.malloc)
        except ValueError:
            # Inside of `using_allocator`.
            self._history.close()
            os.remove(log)
            raise
        cupy._default_memory_pool = self.pool
        _under_way = self
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the recording and gives CuPy the pool back that it had; what is allocated stays valid.

        Closing again does nothing. A process that was forked from the one that records leaves the recording alone.

        Raises:
            VramscopeError: Something could not be written.
        """
        global _under_way
        if _under_way is not self:
            return
        _under_way = None
        atexit.unregister(self.close)
        if self._cupy.get_default_memory_pool() is self.pool:
            self._cupy._default_memory_pool = self._default_pool
        # A program that has set another allocator meanwhile keeps it.
        if self._cupy.cuda.get_allocator() is self.malloc:
            self._cupy.cuda.set_allocator(self._allocator)
        self._history.close(self._pickle)

    def __enter__(self) -> "PoolRecording":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()
