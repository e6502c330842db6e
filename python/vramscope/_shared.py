"""The memory of GPUs that share the host's memory."""

from __future__ import annotations

from vramscope import _native


def used_and_total(free: int, total: int, is_integrated: object) -> tuple[int, int]:
    """Returns the used and total bytes of a GPU, given the free and total bytes from `cudaMemGetInfo`.

    For a GPU that shares the host's memory, they come from `/proc/meminfo`: the driver does not count memory as free
    that the system would release for a request, such as the page cache.
    """
    if is_integrated:
        try:
            return _native.host_device_memory()
        except _native.VramscopeError:
            pass  # The system has no `MemAvailable`.
    return total - free, total
