"""bench/accuracy/compare.py, which compares two recordings event by event."""

import pickle
import subprocess
import sys
from pathlib import Path

COMPARE = Path(__file__).parents[2] / "bench/accuracy/compare.py"
SEGMENT = 2 << 20


def recording(path: Path, sizes: "list[int]", address: int = 0x7F00_0000_0000, stream: int = 0) -> Path:
    """Creates a snapshot: one segment, then blocks of these sizes, allocated and freed in turn."""
    events = [{"action": "segment_alloc", "addr": address, "size": SEGMENT, "stream": stream, "frames": []}]
    for size in sizes:
        for action in ("alloc", "free_requested", "free_completed"):
            events.append({"action": action, "addr": address, "size": size, "stream": stream, "frames": []})
    block = {"address": address, "size": SEGMENT, "state": "inactive", "frames": []}
    segment = {
        "device": 0,
        "address": address,
        "total_size": SEGMENT,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": stream,
        "segment_type": "small",
        "blocks": [block],
    }
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [events]}))
    return path


def compared(first: Path, second: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(COMPARE), "--vramscope", f"{sys.executable} -m vramscope", str(first), str(second)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_same_events_at_other_addresses_and_on_another_stream_are_equal(tmp_path: Path):
    first = recording(tmp_path / "first.pickle", [1024, 512])
    second = recording(tmp_path / "second.pickle", [1024, 512], address=0x7E00_0000_0000, stream=0x55AA)
    done = compared(first, second)
    assert done.returncode == 0, done.stderr
    assert "7 and 7 events, 1 of the second about segments: all equal in order, action, size and stream" in done.stdout
    assert "peak allocated: 1,024 and 1,024 bytes: equal" in done.stdout
    assert "peak reserved: 2,097,152 and 2,097,152 bytes: equal" in done.stdout


def test_the_first_event_that_differs_is_named(tmp_path: Path):
    first, second = (
        recording(tmp_path / "first.pickle", [1024, 512]),
        recording(tmp_path / "second.pickle", [1024, 2048]),
    )
    done = compared(first, second)
    assert done.returncode == 1, done.stderr
    assert "the first 4 are equal" in done.stdout
    assert "event 4 of the first: alloc of 512 bytes on stream 0" in done.stdout
    assert "event 4 of the second: alloc of 2,048 bytes on stream 0" in done.stdout
    assert "3 of the first have no equal in the second, and 3 of the second none in the first" in done.stdout
    assert "peak allocated: 1,024 and 2,048 bytes: -1,024 (-50.0000%)" in done.stdout


def test_a_missing_end_is_a_difference(tmp_path: Path):
    first, second = recording(tmp_path / "first.pickle", [1024]), recording(tmp_path / "second.pickle", [1024, 1024])
    done = compared(first, second)
    assert done.returncode == 1, done.stderr
    assert "4 and 7 events" in done.stdout
    assert "event 4 of the first: no event" in done.stdout


def test_a_file_that_cannot_be_read_is_trouble(tmp_path: Path):
    done = compared(tmp_path / "missing.pickle", recording(tmp_path / "second.pickle", [1024]))
    assert done.returncode == 2
    assert "missing.pickle" in done.stderr
