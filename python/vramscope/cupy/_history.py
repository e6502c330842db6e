"""Records the history of CuPy's pool."""

import atexit
import functools
import os
from collections.abc import Callable
from typing import Any

from vramscope import _arguments
from vramscope._native import PoolHistory, VramscopeError, names_another_format

_under_way: "PoolRecording | None" = None


def record(path: "str | os.PathLike[str]", *, allocator: Callable[[int], Any] | None = None) -> "PoolRecording":
    """Records CuPy's memory pool on all threads and devices until the recording is closed.

        with vramscope.cupy.record("run.vramscope"):
            train()

    During the recording, CuPy allocates from a new `cupy.cuda.MemoryPool` with the limit of the former pool, and
    `cupy.get_default_memory_pool()` returns the new pool. Every request and every free is recorded with its Python
    stack, on any thread. Events are written four times a second, so the recording is readable even if the program
    crashes. `vramscope report`, `view` and `replay` open it.

    Args:
        path: The file. If its name ends in `.pickle` or `.pkl`, closing the recording writes a snapshot in PyTorch's
            format; until then, a log beside it has the suffix `.vramscope`. Suffixes of other formats, such as
            `.json`, are refused.
        allocator: The pool's source of memory, such as `cupy.cuda.malloc_managed`; device memory by default.

    Raises:
        VramscopeError: The file cannot be written, or CuPy's pool is already being recorded.
        ImportError: CuPy is not installed.
    """
    return PoolRecording(path, allocator=allocator)


def _current_stream() -> int:
    from cupy.cuda import get_current_stream

    stream: int = get_current_stream().ptr
    return stream


def _device_free() -> int:
    """Returns the free bytes of the current device, for out-of-memory events."""
    from cupy.cuda import runtime

    free: int = runtime.memGetInfo()[0]
    return free


class PoolRecording:
    """A recording of CuPy's pool, returned by `record`. `close` or the end of the `with` block ends it."""

    path: str
    """The path of the recording."""
    pool: Any
    """The recorded pool, a `cupy.cuda.MemoryPool`."""
    malloc: Callable[[int], Any]
    """The pool's `malloc`, for `cupy.cuda.using_allocator`. Only allocations through it are recorded."""
    _process: int

    def __init__(self, path: "str | os.PathLike[str]", *, allocator: Callable[[int], Any] | None = None) -> None:
        global _under_way
        import cupy

        if _under_way is not None and _under_way._process == os.getpid():
            raise VramscopeError(f"CuPy's pool is already being recorded, to {_under_way.path}; close that first")
        self.path = _arguments.path("path", path)
        if allocator is not None:
            _arguments.function("allocator", allocator)
        if names_another_format(self.path) and not self.path.endswith(".vramscope"):
            raise VramscopeError(
                f"{self.path}: the name of a recording must end in .vramscope, or in .pickle or .pkl for a snapshot; "
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
            # `set_allocator` fails inside `using_allocator`.
            self._history.close()
            os.remove(log)
            raise
        cupy._default_memory_pool = self.pool
        _under_way = self
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the recording and restores CuPy's former pool; live allocations stay valid.

        Closing twice is fine. In a forked child, `close` does not touch the parent's recording.

        Raises:
            VramscopeError: The file could not be written.
        """
        global _under_way
        if _under_way is not self:
            return
        _under_way = None
        atexit.unregister(self.close)
        if self._cupy.get_default_memory_pool() is self.pool:
            self._cupy._default_memory_pool = self._default_pool
        # If the program set another allocator meanwhile, keep that one.
        if self._cupy.cuda.get_allocator() is self.malloc:
            self._cupy.cuda.set_allocator(self._allocator)
        self._history.close(self._pickle)

    def __enter__(self) -> "PoolRecording":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
