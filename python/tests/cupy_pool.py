"""CuPy's own pool on made-up addresses, for tests. It needs CuPy but no GPU."""

from typing import Any

import pytest


class Device:
    """Returns addresses of a device of the given size, and records all requests."""

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
    """Returns CuPy, or skips the test."""
    return pytest.importorskip("cupy", reason="needs cupy: ./test --cupy")


def out_of_device_memory() -> BaseException:
    """Returns the error that CUDA's runtime raises when the device is full; without a GPU, its text is unavailable."""
    from cupy_backends.cuda.api import runtime

    error = runtime.CUDARuntimeError.__new__(runtime.CUDARuntimeError)
    error.status = 2  # cudaErrorMemoryAllocation
    return error


def pool_on(device: Any) -> Any:
    """Returns a CuPy pool on this device."""
    memory = cupy().cuda.memory
    return memory.MemoryPool(memory.PythonFunctionAllocator(device.malloc, device.free).malloc)
