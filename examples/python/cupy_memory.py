"""Prints the lines that hold CuPy's memory at the peak, and the bytes that its pool reserves.

python examples/python/cupy_memory.py
"""

from collections.abc import Callable
from typing import Any

import cupy
import vramscope.cupy


def smooth(rows: int) -> Any:
    """Works on copies, a common and often unintended pattern."""
    image = cupy.empty((rows, 1024), dtype=cupy.float32)
    for _ in range(3):
        wider = cupy.empty((rows + 2, 1024), dtype=cupy.float32)
        image = wider[1:-1]
    return image


def main(allocator: Callable[[int], Any] | None = None) -> None:
    """Records the pool and prints its holders; `allocator` is for machines without a GPU."""
    with vramscope.cupy.record("cupy.vramscope", allocator=allocator):
        results = [smooth(rows) for rows in (1000, 2000, 4000)]
    recording = vramscope.read("cupy.vramscope")
    peaks = recording.peaks()
    held, reserved = peaks["peak_allocated_bytes"], peaks["peak_reserved_bytes"]
    print(f"{held / 2**20:.1f} MiB in use at the peak, {reserved / 2**20:.1f} MiB reserved on the device")
    for holder in recording.holders(top=3):
        print(f"{holder['bytes'] / 2**20:8.1f} MiB in {holder['count']} blocks: {holder['key']}")
    del results


if __name__ == "__main__":
    main()
