"""CuPy's memory pool on one GPU, as it counts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cupy

if TYPE_CHECKING:
    from vramscope._live import Source
    from vramscope._live.data import Holder, Reading


def cupy_sources() -> list[Source]:
    """All GPUs that CuPy sees, with the pool that it uses."""
    return [CupySource(device) for device in range(cupy.cuda.runtime.getDeviceCount())]


class CupySource:
    """The default pool on one GPU. Who holds its blocks is not known without a history."""

    knows_holders = False

    def __init__(self, device: int) -> None:
        self.name = f"CuPy's pool on device {device}"
        self.device_id: int | None = device

    def read(self) -> Reading:
        """The pool's own counters: bytes that are handed out, and bytes that it has of the device."""
        pool = cupy.get_default_memory_pool()
        with cupy.cuda.Device(self.device_id):
            used, total = pool.used_bytes(), pool.total_bytes()
        return {
            "now": {"allocated_bytes": used, "active_bytes": used, "reserved_bytes": total},
            "releasable_bytes": total - used,
        }

    def holders(self, top: int) -> list[Holder] | None:
        """Nobody is known."""
        del top
        return None
