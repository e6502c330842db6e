"""Who has the memory of a device that lies outside of the pool."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from vramscope import _native


class GpuProcess(NamedTuple):
    """A process on a device, and its bytes there; `None` where the driver does not say."""

    pid: int
    used: int | None


@dataclass(frozen=True)
class OutsideMemory:
    """What is in use on a device outside of the pool, in bytes: `hidden`, by anyone.

    `this_process` is this process's own part of it: its context, workspaces of libraries, other pools.
    `other_processes` is what the others have. Each is `None` where the driver does not tell processes apart, as in many
    containers. `processes` are all that the driver names. The parts need not sum to `hidden`: the driver has some for
    itself.
    """

    hidden: int | None
    this_process: int | None = None
    other_processes: int | None = None
    processes: tuple[GpuProcess, ...] = ()

    @classmethod
    def of(
        cls, reserved: int, device_used: int | None, processes: tuple[GpuProcess, ...] | None, pid: int
    ) -> OutsideMemory:
        """Takes what is reserved, what is in use on the device, and who the driver says is on it."""
        hidden = None if device_used is None else max(0, device_used - reserved)
        own = [process.used for process in processes or () if process.pid == pid]
        if not own or own[0] is None:
            # A number that is not ours, as in a container, may be our own under another name.
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
    """The processes on a device, which NVML numbers by its place on the bus.

    Raises `VramscopeError` where there is no NVML, or no such device.
    """
    devices: list[dict[str, Any]] = json.loads(_native.nvml_devices())
    for device in devices:
        if device["index"] == nvml_index:
            return tuple(GpuProcess(process["pid"], process["used_bytes"]) for process in device["processes"])
    raise _native.VramscopeError(f"NVML has no device {nvml_index}")
