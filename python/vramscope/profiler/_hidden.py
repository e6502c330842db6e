"""Device memory in use that the pool did not reserve: contexts, libraries' workspaces, other processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vramscope import _native

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.profiler._events import TrackingEvent


def hidden_memory(events: Iterable[TrackingEvent]) -> dict[str, Any]:
    """Classifies it over the samples among some events, by the rules and limits of the profiler for Rust.

    Returns `samples`, how many knew the device; `constant_bytes`, what was there all the time; `highest_bytes`; and
    `findings`, each with its `classification` (`constant`, `persistent_drift`, `transient_spike`,
    `fragmentation_like`), `severity`, `confidence`, and the numbers that show it. There are no findings of fewer than
    three samples, or where less than 5 % of the device are hidden. `fragmentation_like` is of free bytes in segments in
    use (`inactive_split`), and of all that is reserved and not allocated where these are not known.
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
