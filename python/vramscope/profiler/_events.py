"""The events that a tracker records."""

from __future__ import annotations

import csv
import io
import json
import os
import socket
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from vramscope import _arguments
from vramscope._files import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Environment variables of launchers: rank, rank on the machine, number of ranks.
_RANKS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
_JOBS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")


@dataclass(frozen=True)
class Identity:
    """The identity of a process within a job."""

    job_id: str | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1

    @classmethod
    def of(
        cls,
        job_id: str | None,
        rank: int | None,
        local_rank: int | None,
        world_size: int | None,
        environment: Mapping[str, str] = os.environ,
    ) -> Identity:
        """Returns the given values, or else the launcher's. Raises `ValueError` for impossible ranks."""
        if rank is None or local_rank is None or world_size is None:
            for names in _RANKS:
                said = [int(value) if value.isdigit() else None for value in map(environment.get, names, ("",) * 3)]
                if said[0] is not None and said[2] is not None:
                    rank = said[0] if rank is None else rank
                    local_rank = said[1] if local_rank is None else local_rank
                    world_size = said[2] if world_size is None else world_size
                    break
        rank = 0 if rank is None else rank
        world_size = 1 if world_size is None else world_size
        local_rank = rank if local_rank is None else local_rank
        _arguments.at_least("world_size", world_size, 1)
        for name, value in (("rank", rank), ("local_rank", local_rank)):
            _arguments.at_least(name, value, 0)
            if value >= world_size:
                raise ValueError(f"{name} must be < world_size")
        job = job_id or next((environment[name] for name in _JOBS if environment.get(name)), None)
        return cls(job, rank, local_rank, world_size)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return dict(vars(self))


@dataclass
class TrackingEvent:
    """An event of a tracker; sizes in bytes, times in seconds since the Unix epoch.

    `event_type` is `start`, `stop`, `sample`, `peak`, `allocation`, `deallocation`, `warning`, `critical`, `cleared`,
    `error`, `cleanup`, `phase_enter` or `phase_exit`. `inactive_memory` is cached memory; `inactive_split` is the part
    of it in segments that are partly in use. `device_used` is the device's used memory by all processes, from the
    driver.
    """

    timestamp: float
    event_type: str
    memory_allocated: int
    memory_reserved: int
    memory_change: int
    device_id: int
    context: str | None = None
    job_id: str | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    metadata: dict[str, Any] | None = None
    active_memory: int | None = None
    inactive_memory: int | None = None
    device_used: int | None = None
    device_free: int | None = None
    device_total: int | None = None
    backend: str = "cuda"
    inactive_split: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return {**vars(self), "metadata": dict(self.metadata or {})}

    def to_telemetry(self, sampling_interval: float) -> dict[str, Any]:
        """Returns the event with the keys of gpumemprof's telemetry, version 2."""
        return {
            "schema_version": 2,
            "timestamp_ns": int(self.timestamp * 1e9),
            "event_type": self.event_type,
            "collector": f"vramscope.{self.backend}_tracker",
            "sampling_interval_ms": round(sampling_interval * 1000),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "device_id": self.device_id,
            "allocator_allocated_bytes": self.memory_allocated,
            "allocator_reserved_bytes": self.memory_reserved,
            "allocator_active_bytes": self.active_memory,
            "allocator_inactive_bytes": self.inactive_memory,
            "allocator_change_bytes": self.memory_change,
            "device_used_bytes": self.device_used,
            "device_free_bytes": self.device_free,
            "device_total_bytes": self.device_total,
            "context": self.context,
            "job_id": self.job_id,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "metadata": dict(self.metadata or {}),
        }


def write_events(
    path: str | PathLike[str], events: Iterable[TrackingEvent], form: str, sampling_interval: float
) -> None:
    """Writes events as `csv` or `json`. Raises `ValueError` for other formats."""
    if form not in ("csv", "json"):
        raise ValueError(f"Unsupported format: {form}")
    records = [event.to_telemetry(sampling_interval) for event in events]
    text = io.StringIO(newline="")
    if form == "json":
        json.dump(records, text, indent=2, default=str)
    elif records:
        writer = csv.DictWriter(text, list(records[0]))
        writer.writeheader()
        for record in records:
            writer.writerow({**record, "metadata": json.dumps(record["metadata"], default=str)})
    write_text(_arguments.path("path", path), text.getvalue())


def timeline(events: Iterable[TrackingEvent], interval: float) -> dict[str, list[Any]]:
    """Returns the last event of every `interval` seconds, in columns.

    Raises `ValueError` if the interval is not above 0.
    """
    interval = _arguments.seconds("interval", interval)
    last: dict[int, TrackingEvent] = {}
    begin: float | None = None
    for event in events:
        at = event.timestamp
        begin = at if begin is None else begin
        last[int((at - begin) // interval)] = event
    buckets = sorted(last.items())
    columns: dict[str, list[Any]] = {"timestamps": [(begin or 0.0) + i * interval for i, _ in buckets]}
    for name, key in (("allocated", "memory_allocated"), ("reserved", "memory_reserved")):
        columns[name] = [getattr(event, key) for _, event in buckets]
    for key in ("device_used", "device_free", "device_total"):
        columns[key] = [getattr(event, key, None) for _, event in buckets]
    return columns
