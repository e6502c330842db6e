"""What a source of a live program says."""

from __future__ import annotations

from typing import TypedDict


class Bytes(TypedDict, total=False):
    """Bytes in use, of each kind; what is not known is left out."""

    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    device_used_bytes: int
    device_total_bytes: int
    process_used_bytes: int
    cpu_bytes: int


class Counts(TypedDict):
    """What was counted since the program began."""

    num_allocations: int
    num_frees: int
    allocated_bytes: int
    freed_bytes: int
    num_alloc_retries: int
    num_ooms: int


class Reading(TypedDict, total=False):
    """A look at a source. `peak` is the highest of each since somebody reset them, where the source counts it."""

    now: Bytes
    peak: Bytes
    counts: Counts
    inactive_split_bytes: int
    releasable_bytes: int


class Holder(TypedDict):
    """Live blocks of one line: their bytes, how many, and the stack, innermost first, as `file:line function`."""

    bytes: int
    count: int
    stack: list[str]
