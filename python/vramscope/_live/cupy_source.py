"""The counters of CuPy's memory pool on one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cupy

if TYPE_CHECKING:
    from vramscope._live import Source
    from vramscope._live.data import Holder, Reading


def cupy_sources() -> list[Source]:
    """Returns one source per GPU that CuPy sees."""
    return [CupySource(device) for device in range(cupy.cuda.runtime.getDeviceCount())]


class CupySource:
    """CuPy's default pool on one GPU. Its holders are unknown without a recording."""

    knows_holders = False

    def __init__(self, device: int) -> None:
        self.name = f"CuPy's pool on device {device}"
        self.device_id: int | None = device

    def read(self) -> Reading:
        """Returns the pool's counters: allocated and reserved bytes."""
        pool = cupy.get_default_memory_pool()
        with cupy.cuda.Device(self.device_id):
            used, total = pool.used_bytes(), pool.total_bytes()
        return {
            "now": {"allocated_bytes": used, "active_bytes": used, "reserved_bytes": total},
            "releasable_bytes": total - used,
        }

    def holders(self, top: int) -> list[Holder] | None:
        """Returns None: CuPy records no stacks."""
        del top
        return None
