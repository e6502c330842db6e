"""The data that a live source returns."""

from __future__ import annotations

from typing import TypedDict


class Bytes(TypedDict, total=False):
    """Bytes in use, by kind; unknown kinds are left out."""

    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    device_used_bytes: int
    device_total_bytes: int
    process_used_bytes: int
    cpu_bytes: int


class Counts(TypedDict):
    """Counters since the program began."""

    num_allocations: int
    num_frees: int
    allocated_bytes: int
    freed_bytes: int
    num_alloc_retries: int
    num_ooms: int


class Reading(TypedDict, total=False):
    """One reading. `peak` holds the highest value of each kind since the last reset, if the source counts peaks."""

    now: Bytes
    peak: Bytes
    counts: Counts
    inactive_split_bytes: int
    releasable_bytes: int


class Holder(TypedDict):
    """Live blocks of one line: bytes, count, and the stack, innermost frame first, as `file:line function`."""

    bytes: int
    count: int
    stack: list[str]
