"""Every value in PyTorch's snapshot appears in vramscope's tables under the corresponding name."""

import pickle
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
import vramscope

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["oom.pickle", "leak.pickle"])
def both(request):
    """Reads a snapshot with Python's unpickler and as a recording."""
    file = EXAMPLES / request.param
    with open(file, "rb") as opened:
        return pickle.load(opened), vramscope.read(file)


def rows(table):
    return pyarrow.table(table).to_pylist()


def frames(row):
    """Returns line and name of each stack frame of a row, outermost first."""
    return [frame.rpartition(":")[2] for frame in row["stack"].split(";")] if row["stack"] else []


def test_segments(both):
    snapshot, recording = both
    found = [row for row in rows(recording.segments) if row["free_event"] is None]
    assert sorted((row["address"], row["size_bytes"], row["stream"], row["kind"]) for row in found) == sorted(
        (segment["address"], segment["total_size"], segment["stream"], segment["segment_type"])
        for segment in snapshot["segments"]
    )


def test_blocks(both):
    snapshot, recording = both
    live = [row for row in rows(recording.allocations) if row["free_event"] is None]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert {block["state"] for block in blocks} <= {"active_allocated", "inactive"}
    assert sorted((row["address"], row["requested_bytes"], row["block_bytes"], *frames(row)) for row in live) == sorted(
        (
            block["address"],
            block["requested_size"],
            block["size"],
            *(f"{frame['line']} {frame['name']}" for frame in reversed(block["frames"])),
        )
        for block in blocks
        if block["state"] == "active_allocated"
    )


def test_events(both):
    snapshot, recording = both
    traced = [entry for trace in snapshot["device_traces"] for entry in trace]
    found = rows(recording.events)
    times = pyarrow.table(recording.events)["time_us"].cast(pyarrow.int64()).to_pylist()
    found = [{**row, "time_us": time} for row, time in zip(found, times, strict=True)]
    assert Counter(row["action"] for row in found) == Counter(entry["action"] for entry in traced)
    kinds = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free")
    assert [
        (row["action"], row["address"], row["size_bytes"], row["stream"], row["time_us"])
        for row in found
        if row["action"] in kinds
    ] == [
        (entry["action"], entry["addr"], entry["size"], entry["stream"], entry["time_us"])
        for entry in traced
        if entry["action"] in kinds
    ]
    ooms = [entry for entry in traced if entry["action"] == "oom"]
    assert [row["device_free_bytes"] for row in found if row["action"] == "oom"] == [
        entry["device_free"] for entry in ooms
    ]
    assert [(oom["requested_bytes"], oom["device_free_bytes"]) for oom in recording.ooms()] == [
        (entry["size"], entry["device_free"]) for entry in ooms
    ]
