"""Used device memory that the pool did not reserve: contexts, library workspaces, other processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vramscope import _native

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.profiler._events import TrackingEvent


def hidden_memory(events: Iterable[TrackingEvent]) -> dict[str, Any]:
    """Classifies hidden memory over the samples among some events, with the rules and limits of the Rust profiler.

    Returns `samples` (the number of samples with device numbers), `constant_bytes` (always present), `highest_bytes`,
    and `findings`. Each finding has a `classification` (`constant`, `persistent_drift`, `transient_spike`,
    `fragmentation_like`), a `severity`, a `confidence`, and its numbers. There are no findings for fewer than three
    samples, or if less than 5 % of the device is hidden. `fragmentation_like` covers free bytes in segments in use
    (`inactive_split`), or if unknown, all bytes that are reserved but not allocated.
    """
    looks = [
        (
            int(event.timestamp * 1e6),
            event.memory_allocated,
            event.inactive_split,
            event.memory_reserved,
            event.device_used,
            event.device_total,
        )
        for event in events
        if event.event_type == "sample" and event.device_used is not None and event.device_total
    ]
    found: dict[str, Any] = json.loads(_native.hidden_memory(looks))
    return found
