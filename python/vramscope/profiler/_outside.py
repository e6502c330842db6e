"""The owners of device memory outside the pool."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from vramscope import _native


class GpuProcess(NamedTuple):
    """A process on a device and its bytes there; `None` if the driver does not report them."""

    pid: int
    used: int | None


@dataclass(frozen=True)
class OutsideMemory:
    """Used device memory outside the pool, in bytes; `hidden` is the total over all processes.

    `this_process` is this process's part: its context, library workspaces, other pools. `other_processes` is the rest.
    Both are `None` if the driver does not distinguish processes, as in many containers. `processes` lists all processes
    that the driver reports. The parts need not sum to `hidden`, because the driver uses some memory itself.
    """

    hidden: int | None
    this_process: int | None = None
    other_processes: int | None = None
    processes: tuple[GpuProcess, ...] = ()

    @classmethod
    def of(
        cls, reserved: int, device_used: int | None, processes: tuple[GpuProcess, ...] | None, pid: int
    ) -> OutsideMemory:
        """Computes the split from the reserved bytes, the device's used bytes, and the driver's process list."""
        hidden = None if device_used is None else max(0, device_used - reserved)
        own = [process.used for process in processes or () if process.pid == pid]
        if not own or own[0] is None:
            # Containers have their own PIDs, so an unknown PID may be this process.
            return cls(hidden, processes=processes or ())
        others = [process.used for process in processes or () if process.pid != pid]
        known = [used for used in others if used is not None]
        return cls(
            hidden,
            max(0, own[0] - reserved),
            sum(known) if len(known) == len(others) else None,
            processes or (),
        )


def processes_on(nvml_index: int) -> tuple[GpuProcess, ...]:
    """Returns the processes on a device, by its NVML index (PCI bus order).

    Raises `VramscopeError` if NVML is missing or has no such device.
    """
    devices: list[dict[str, Any]] = json.loads(_native.nvml_devices())
    # MIG instances of one device have its index.
    found = [device for device in devices if device["index"] == nvml_index]
    if not found:
        raise _native.VramscopeError(f"NVML has no device {nvml_index}")
    return tuple(
        GpuProcess(process["pid"], process["used_bytes"]) for device in found for process in device["processes"]
    )
