"""CuPy's own pool on addresses that are made up, for tests. It needs CuPy and no GPU."""

from typing import Any

import pytest


class Device:
    """Hands out addresses of a device with so many bytes, and remembers what was asked of it."""

    def __init__(self, capacity: int = 1 << 60) -> None:
        self.capacity = capacity
        self.held: dict[int, int] = {}
        self.next_address = 1 << 40
        self.refused = 0

    def malloc(self, size: int, _device_id: int) -> int:
        if sum(self.held.values()) + size > self.capacity:
            self.refused += 1
            raise out_of_device_memory()
        address = self.next_address
        self.next_address += (size + 511) // 512 * 512
        self.held[address] = size
        return address

    def free(self, address: int, _device_id: int) -> None:
        del self.held[address]


def cupy() -> Any:
    """CuPy, or a skipped test."""
    return pytest.importorskip("cupy", reason="needs cupy: ./test --cupy")


def out_of_device_memory() -> BaseException:
    """What CUDA's runtime says where the device is full. Without a GPU nothing knows the words for it."""
    from cupy_backends.cuda.api import runtime

    error = runtime.CUDARuntimeError.__new__(runtime.CUDARuntimeError)
    error.status = 2  # cudaErrorMemoryAllocation
    return error


def pool_on(device: Any) -> Any:
    """CuPy's pool on this device."""
    memory = cupy().cuda.memory
    return memory.MemoryPool(memory.PythonFunctionAllocator(device.malloc, device.free).malloc)
