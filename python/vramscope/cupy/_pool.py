"""vramscope's memory pool as CuPy's allocator, alone or together with PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vramscope._native import OutOfMemoryError, VramscopeError

if TYPE_CHECKING:
    from vramscope._native import CupyPool

_pool: Pool | None = None


def taken() -> tuple[int, int]:
    """Returns the bytes allocated and the bytes taken from the devices so far; 0 if CuPy does not use the pool."""
    return (0, 0) if _pool is None else _pool._native.taken()


class Pool:
    """vramscope's pool under CuPy, returned by `use_pool`: the methods of `cupy.cuda.MemoryPool`.

    Numbers and limits are those of the current device, and of all frameworks that use the pool unless one is named.
    """

    def __init__(self, native: CupyPool) -> None:
        import cupy

        self._native = native
        self._cuda = cupy.cuda
        self._allocator = cupy.cuda.PythonFunctionAllocator(self._malloc, native.free)

    def malloc(self, size: int) -> Any:
        """Allocates `size` bytes on the current stream. Returns a `cupy.cuda.MemoryPointer`."""
        return self._allocator.malloc(size)

    def used_bytes(self) -> int:
        """Returns the bytes in use."""
        return self._native.counts(self._device())[0]

    def total_bytes(self) -> int:
        """Returns the bytes that the pool took from the device (reserved)."""
        return self._native.counts(self._device())[1]

    def free_bytes(self) -> int:
        """Returns the reserved bytes that are not in use."""
        used, total, _ = self._native.counts(self._device())
        return total - used

    def n_free_blocks(self) -> int:
        """Returns the number of free blocks."""
        return self._native.counts(self._device())[2]

    def shares(self) -> dict[str, int]:
        """Returns the bytes in use by framework: `cupy` and `torch`."""
        device = self._device()
        return {framework: self._native.bytes_of(framework, device) for framework in ("cupy", "torch")}

    def free_all_blocks(self, stream: Any = None) -> None:
        """Releases free memory to the device: that of a stream, or all."""
        self._native.free_all_blocks(self._device(), None if stream is None else stream.ptr)

    def set_limit(
        self, size: int | None = None, fraction: float | None = None, *, framework: str | None = None
    ) -> None:
        """Limits the reserved bytes, in bytes or as a fraction of the device; 0 or nothing removes the limit.

        With `framework`, `"cupy"` or `"torch"`, limits the bytes in use by this framework (`shares`) instead. A request
        beyond a limit raises the out-of-memory exception of its framework.

        Raises ValueError if both `size` and `fraction` are given, one is out of range, or the framework is unknown.
        """
        if size is None:
            if fraction is None:
                fraction = 0.0
            if not 0 <= fraction <= 1:
                raise ValueError(f"memory limit fraction out of range: {fraction}")
            size = int(fraction * self._cuda.runtime.memGetInfo()[1]) if fraction else 0
        elif fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        if framework is None:
            self._native.set_limit(self._device(), size)
        else:
            self._native.set_limit_of(framework, self._device(), size)

    def get_limit(self, *, framework: str | None = None) -> int:
        """Returns the limit in bytes, of all frameworks or of one; 0 is no limit."""
        if framework is None:
            return self._native.get_limit(self._device())
        return self._native.get_limit_of(framework, self._device())

    def _device(self) -> int:
        device: int = self._cuda.device.get_device_id()
        return device

    def _malloc(self, size: int, device: int) -> int:
        try:
            return self._native.malloc(size, device, self._cuda.get_current_stream().ptr)
        except OutOfMemoryError:
            total, limit = self._native.counts(device)[1], self._native.get_limit(device)
            used, own_limit = self._native.bytes_of("cupy", device), self._native.get_limit_of("cupy", device)
            if own_limit and used + -(-size // 512) * 512 > own_limit:
                total, limit = used, own_limit
            raise self._cuda.memory.OutOfMemoryError(size, total, limit) from None


def use_pool(*, check: bool = False) -> Pool:
    """Makes vramscope's pool the allocator of CuPy's arrays, until the process ends.

    After `vramscope.torch.use_pool()`, CuPy and PyTorch share one pool: memory that one has freed serves the other, by
    the rules of the installed PyTorch, and a limit holds for both. Otherwise, the pool has CuPy's rules, and PyTorch
    keeps its own allocator. Arrays from before stay in CuPy's former pool. `cupy.get_default_memory_pool()` returns the
    pool.

    `check=True` compares each block with all others in use, and raises VramscopeError if two overlap; the pool of
    PyTorch has an argument of its own.

    Raises VramscopeError on another system than Linux, and ImportError if CuPy is not installed.
    """
    global _pool
    import cupy

    if _pool is None:
        try:
            from vramscope._native import CupyPool
        except ImportError:
            raise VramscopeError("vramscope's pool works on Linux only") from None
        _pool = Pool(CupyPool(cupy.cuda.runtime.getDeviceCount(), check))
    cupy.cuda.set_allocator(_pool.malloc)
    cupy._default_memory_pool = _pool
    return _pool
