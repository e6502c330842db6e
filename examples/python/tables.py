"""Queries a recording as tables with polars, for example the lines that hold memory longest.

python examples/python/tables.py examples/training.pickle.zst
"""

from __future__ import annotations

import sys

import polars
import vramscope


def main(path: str) -> None:
    """Prints the results of three queries that no report answers."""
    recording = vramscope.read(path)
    allocations = polars.DataFrame(recording.allocations)
    events = polars.DataFrame(recording.events)

    print("bytes times microseconds, by line")
    held = (polars.col("block_bytes") * polars.col("lifetime_us")).sum().alias("byte_us")
    print(
        allocations.group_by("line")
        .agg(held, polars.len().alias("allocations"))
        .sort("byte_us", descending=True)
        .head(5)
    )

    print("allocated share of the reserved memory, in ten parts of the run")
    full = (polars.col("allocated_bytes").sum() / polars.col("reserved_bytes").sum()).alias("allocated_of_reserved")
    part = (polars.col("event") * 10 // events.height).alias("part")
    print(events.group_by(part).agg(full).sort("part"))

    print("most frequent block sizes")
    print(allocations["block_bytes"].value_counts(sort=True).head(5))


if __name__ == "__main__":
    main(sys.argv[1])
