"""A device made of counters, for tests without PyTorch; and PyTorch's device, if there is one."""

import threading

import pytest
from vramscope.profiler import DeviceMemory, MemorySource, Peaks, Reading


class CountedDevice(MemorySource):
    """A simulated allocator: exact, with peaks, and with other programs on the device."""

    knows_peaks = True

    def __init__(self, total=1 << 30):
        self.total, self.others = total, 0
        self.allocated = self.reserved = self.taken = self.given = self.blocks = self.frees = 0
        self.split = 0
        self.peaks = Peaks()
        self.resets = 0
        self.broken = None
        self._lock = threading.Lock()

    def malloc(self, size):
        with self._lock:
            if self.others + self.allocated + size > self.total:
                raise MemoryError(f"out of memory allocating {size} bytes")
            self.allocated += size
            self.taken += size
            self.blocks += 1
            self.reserved = max(self.reserved, self.allocated)
            self.peaks = self.peaks.highest(self._now())
        return size

    def free(self, size):
        with self._lock:
            self.allocated -= size
            self.given += size
            self.frees += 1

    def _now(self):
        return Peaks(self.allocated, self.reserved, self.allocated)

    def read(self):
        if self.broken is not None:
            raise self.broken
        return Reading(
            allocated=self.allocated,
            reserved=self.reserved,
            active=self.allocated,
            inactive_split=self.split,
            peaks=self.peaks,
            allocated_bytes=self.taken,
            freed_bytes=self.given,
            num_allocations=self.blocks,
            num_frees=self.frees,
        )

    def reset_peaks(self):
        self.resets += 1
        self.peaks = self._now()

    def device_memory(self):
        return DeviceMemory(self.others + self.reserved, self.total)

    def bytes_of(self, value):
        return value if isinstance(value, int) else 0

    def empty_cache(self):
        self.reserved = self.allocated


@pytest.fixture
def device():
    return CountedDevice()
