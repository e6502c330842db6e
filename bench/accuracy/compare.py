"""Compares two recordings of one program, event by event: python3 bench/accuracy/compare.py PHANTOM GPU

Both are recordings that `vramscope export` reads, for example of one program on a phantom GPU and on a real one. Two events are equal
if their action (`alloc`, `free_requested`, `free_completed`, `segment_alloc` ...), their stream and their size in bytes are equal.
Addresses are not compared, because a driver chooses them; streams are numbered in the order of their first event, for the same reason.
`vramscope` reads both files; it runs no code from them.

Prints for each device the number of equal events, the first pair that differs, and both peaks. Exit code 0: all events and both peaks
are equal. 1: a difference. 2: an unreadable file.
"""

import argparse
import csv
import itertools
import json
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

# Some exported stacks exceed the default limit of Python's reader (128 KiB).
csv.field_size_limit(1 << 24)


class Event(NamedTuple):
    """The compared fields of an event; the size is in bytes."""

    action: str
    size: int
    stream: int


def vramscope(command, *arguments):
    """The output of a call of vramscope; exits with code 2 if the call fails."""
    done = subprocess.run([*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(2)
    return done.stdout


def events(command, recording, folder):
    """The events of each device of a recording, and for each event the line of code that caused it."""
    table = Path(folder) / "events.csv"
    vramscope(command, "export", recording, "--what", "events", "-o", table)
    devices, lines, streams = {}, {}, {}
    with table.open(newline="") as rows:
        for row in csv.DictReader(rows):
            device = int(row["device"])
            known = streams.setdefault(device, {})
            stream = known.setdefault(row["stream"], len(known))
            devices.setdefault(device, []).append(Event(row["action"], int(row["size_bytes"] or 0), stream))
            lines.setdefault(device, []).append(row["line"])
    return devices, lines


def peaks(command, recording):
    """The peaks of allocated and of reserved bytes of each device."""
    report = json.loads(vramscope(command, "report", "--json", recording))
    return {
        device["device"]: (device["peak_allocated_bytes"], device["peak_reserved_bytes"])
        for device in report["devices"]
    }


def shown(event, line):
    """An event as text."""
    return f"{event.action} of {event.size:,} bytes on stream {event.stream}" + (f", {line}" if line else "")


def compared_events(ours, theirs):
    """Prints how two lists of events differ; returns whether they are equal. Each list comes with its lines of code."""
    (events_a, lines_a), (events_b, lines_b) = ours, theirs
    equal = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(events_a, events_b)))
    segments = sum(event.action.startswith("segment") for event in events_b)
    total = f"{len(events_a):,} and {len(events_b):,} events, {segments:,} of the second about segments"
    if events_a == events_b:
        print(f"  {total}: all equal in order, action, size and stream")
        return True
    print(f"  {total}: the first {equal:,} are equal")
    for name, listed, lines in (("first", events_a, lines_a), ("second", events_b, lines_b)):
        here = shown(listed[equal], lines[equal]) if equal < len(listed) else "no event"
        print(f"    event {equal:,} of the {name}: {here}")
    counts_a, counts_b = Counter(events_a), Counter(events_b)
    print(
        f"    whatever their order, {(counts_a - counts_b).total():,} of the first have no equal in the second, "
        f"and {(counts_b - counts_a).total():,} of the second none in the first"
    )
    return False


def compared_peak(name, ours, theirs):
    """Prints how two peaks in bytes differ; returns whether they are equal."""
    difference = ours - theirs
    share = f" ({difference / theirs:+.4%})" if theirs else ""
    print(f"  peak {name}: {ours:,} and {theirs:,} bytes: " + (f"{difference:+,}{share}" if difference else "equal"))
    return not difference


def main():
    """Compares the two recordings that the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="for example from the phantom GPU")
    parser.add_argument("second", type=Path, help="for example from the real GPU; differences are relative to it")
    parser.add_argument("--vramscope", default="vramscope", help="the command (default: vramscope)")
    arguments = parser.parse_args()
    command = shlex.split(arguments.vramscope)
    with tempfile.TemporaryDirectory() as folder:
        events_a, lines_a = events(command, arguments.first, folder)
        events_b, lines_b = events(command, arguments.second, folder)
    peaks_a, peaks_b = peaks(command, arguments.first), peaks(command, arguments.second)
    same = True
    for device in sorted({*peaks_a, *peaks_b}):
        print(f"device {device}:")
        ours = events_a.get(device, []), lines_a.get(device, [])
        theirs = events_b.get(device, []), lines_b.get(device, [])
        same &= compared_events(ours, theirs)
        names = ("allocated", "reserved")
        for name, a, b in zip(names, peaks_a.get(device, (0, 0)), peaks_b.get(device, (0, 0))):
            same &= compared_peak(name, a, b)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
