"""Makers of recordings of which one count grows: `INPUTS` has the maker and the smallest count by name.

A maker writes a recording with a count of `n` into a folder that exists and is empty, and returns the path of the recording.
"""

import gzip
import json
import pathlib
import pickle
import sqlite3
import sys

START = 0x7F0000000000
BLOCK = 512
MIB = 1 << 20
FRAME = {"name": "train", "filename": "/home/me/train.py", "line": 7}
FRAMES = [FRAME]


def event(action, addr, size, i, stream=0, frames=FRAMES, **more):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 10**15 + i, "frames": frames, **more}


def pair(addr, i, **more):
    """An allocation and its free."""
    return [event("alloc", addr, BLOCK, i, **more), *free(addr, i, **more)]


def free(addr, i, **more):
    actions = ("free_requested", "free_completed")
    return [event(action, addr, BLOCK, i, **more) for action in actions]


def segment(blocks, addr=START, kind="small", stream=0, pool=(0, 0)):
    """A segment of the end state, of blocks given as (bytes, state)."""
    out, at = [], addr
    for size, state in blocks:
        out.append({"address": at, "size": size, "requested_size": size, "state": state, "frames": FRAMES})
        at += size
    active = sum(size for size, state in blocks if state != "inactive")
    return {
        "device": 0, "address": addr, "total_size": at - addr, "allocated_size": active, "active_size": active,
        "requested_size": active, "stream": stream, "segment_type": kind, "segment_pool_id": pool, "is_expandable": False,
        "frames": FRAMES, "blocks": out,
    }  # fmt: skip


def snapshot(folder, events=(), segments=(), annotations=(), conf="", devices=None, name="run.pickle"):
    settings = {"PYTORCH_CUDA_ALLOC_CONF": conf, "max_split_size": -1, "expandable_segments": False}
    whole = {
        "segments": list(segments),
        "device_traces": devices or [list(events)],
        "allocator_settings": settings,
        "external_annotations": list(annotations),
    }
    path = pathlib.Path(folder) / name
    path.write_bytes(pickle.dumps(whole, protocol=4))
    return path


def room(bytes):
    """The event of a segment for this many bytes."""
    return event("segment_alloc", START, (bytes + 2 * MIB - 1) // (2 * MIB) * (2 * MIB), 0)


# ---- events of each action


def pairs(folder, n):
    return snapshot(folder, [room(BLOCK), *(e for i in range(n) for e in pair(START, i))])


def live(folder, n):
    return snapshot(folder, [room(n * BLOCK), *(event("alloc", START + i * BLOCK, BLOCK, i) for i in range(n))])


def pending(folder, n):
    """Blocks whose free is requested and never completed."""
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i) for i in range(n)]
    requests = [event("free_requested", START + i * BLOCK, BLOCK, n + i) for i in range(n)]
    return snapshot(folder, [room(n * BLOCK), *allocs, *requests])


def late(folder, n):
    """Blocks that other streams used: their frees complete within a request that fails."""
    allocs = [event("alloc", START + 2 * i * BLOCK, BLOCK, i) for i in range(n)]
    requests = [event("free_requested", START + 2 * i * BLOCK, BLOCK, n + i) for i in range(n)]
    done = [event("free_completed", START + 2 * i * BLOCK, BLOCK, 2 * n + i, frames=[]) for i in range(n)]
    return snapshot(folder, [room(2 * n * BLOCK), *allocs, *requests, *done, event("oom", 0, BLOCK, 3 * n)])


def frees(folder, n):
    """Frees of allocations from before the recording."""
    return snapshot(folder, [e for i in range(n) for e in free(START + i * BLOCK, i)])


def growths(folder, n):
    allocs = [e for i in range(n) for e in (event("segment_alloc", START + i * 2 * MIB, 2 * MIB, i), event("alloc", START + i * 2 * MIB, MIB, i))]
    return snapshot(folder, allocs)


def churn(folder, n):
    """A segment for each allocation, released after it."""
    around = [
        lambda i: [event("segment_alloc", START, 2 * MIB, i)],
        lambda i: pair(START, i),
        lambda i: [event("segment_free", START, 2 * MIB, i)],
    ]
    return snapshot(folder, [e for i in range(n) for part in around for e in part(i)])


def maps(folder, n):
    """Pages of an expandable segment, each with a live allocation."""
    pages = [e for i in range(n) for e in (event("segment_map", START + i * 2 * MIB, 2 * MIB, i), event("alloc", START + i * 2 * MIB, 2 * MIB, i))]
    return snapshot(folder, pages, conf="expandable_segments:True")


def unmaps(folder, n):
    around = [
        lambda i: [event("segment_map", START, 2 * MIB, i), *pair(START, i)],
        lambda i: [event("segment_unmap", START, 2 * MIB, i)],
    ]
    return snapshot(folder, [e for i in range(n) for part in around for e in part(i)], conf="expandable_segments:True")


def snapshots(folder, n):
    return snapshot(folder, [room(BLOCK), *pair(START, 0), *(event("snapshot", 0, 0, i) for i in range(n))])


def unknown(folder, n):
    return snapshot(folder, [room(BLOCK), *pair(START, 0), *(event(f"action {i % 100}", START, BLOCK, i) for i in range(n))])


def rebound(folder, n):
    """Allocations at one address without frees."""
    return snapshot(folder, [room(BLOCK), *(event("alloc", START, BLOCK, i) for i in range(n))])


def overlapping(folder, n):
    """Allocations that overlap, as no allocator makes them."""
    return snapshot(folder, [room(n * BLOCK), *(event("alloc", START + i, n * BLOCK - i, i) for i in range(n))])


# ---- failures


def holes_of(holes):
    """Free blocks between allocated ones."""
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i) for i in range(2 * holes)]
    return [room(2 * holes * BLOCK), *allocs, *(event("free_completed", START + i * BLOCK, BLOCK, i) for i in range(0, 2 * holes, 2))]


def failures(folder, n, holes=1000):
    return snapshot(folder, [*holes_of(holes), *(event("oom", MIB, 1 << 30, i) for i in range(n))])


def failures_and_holes(folder, n):
    return failures(folder, n, n)


def failures_over_blocks(folder, n):
    """Failures over an end state whose blocks have no events."""
    blocks = segment([(BLOCK, "active_allocated"), (BLOCK, "inactive")] * n)
    return snapshot(folder, [event("oom", MIB, 1 << 30, i) for i in range(n)], [blocks])


def failures_that_fit(folder, n):
    """Failed requests that a free block of another stream could serve, and whose size is requested again later."""
    holes = [event("segment_alloc", START, 4 * n * BLOCK, 0, stream=1)]
    for i in range(n):
        holes += pair(START + i * BLOCK, i, stream=1)
        holes += [event("oom", MIB, BLOCK, i)]
    return snapshot(folder, holes)


def failures_between_growth(folder, n):
    """Segments without a free block, and a failure after each."""
    out = []
    for i in range(n):
        at = START + i * 2 * MIB
        out += [event("segment_alloc", at, 2 * MIB, i), event("alloc", at, 2 * MIB, i), event("oom", MIB, 1 << 30, i)]
    return snapshot(folder, out)


def leaks(folder, n):
    """Lines that keep an allocation in each of 12 rounds, in which as many bytes are freed, and a failure."""
    out, at, kept = [room(24 * n * BLOCK)], 0, 12 * n * BLOCK
    for rounds in range(12):
        for line in range(n):
            out.append(event("alloc", START + at * BLOCK, BLOCK, len(out), frames=[{**FRAME, "line": line}]))
            at += 1
        out += [event(action, START + kept, kept, len(out)) for action in ("alloc", "free_requested", "free_completed")]
    return snapshot(folder, [*out, event("oom", 0, 1 << 30, len(out))])


def oversize(folder, n):
    """Free blocks below `max_split_size_mb`, and segments of their own above it."""
    out = holes_of(n)
    for i in range(n):
        at = START + (1 << 40) + i * 40 * MIB
        out += [event("segment_alloc", at, 40 * MIB, i), event("alloc", at, 40 * MIB, i)]
    return snapshot(folder, out, conf="max_split_size_mb:32")


def collections(folder, n):
    """Segments that a garbage collection releases one by one, beside as many free blocks."""
    out = holes_of(n)
    for i in range(n):
        at = START + (1 << 40) + i * 40 * MIB
        out += [event("segment_alloc", at, 40 * MIB, i), event("alloc", at, 40 * MIB, i), *free(at, i)]
    for i in range(n):
        at = START + (1 << 40) + i * 40 * MIB
        out += [event("segment_free", at, 40 * MIB, i)]
        out += [event("segment_alloc", at + (1 << 41), 60 * MIB, i), event("alloc", at + (1 << 41), 60 * MIB, i)]
    return snapshot(folder, out, conf="garbage_collection_threshold:0.8")


# ---- the end state


def blocks(folder, n):
    return snapshot(folder, segments=[segment([(BLOCK, "active_allocated")] * n)])


def holes(folder, n):
    return snapshot(folder, [event("alloc", START, BLOCK, 0)], [segment([(BLOCK, "active_allocated"), (BLOCK, "inactive")] * n)])


def waiting(folder, n):
    return snapshot(folder, segments=[segment([(BLOCK, "active_pending_free")] * n)])


def segments(folder, n):
    return snapshot(folder, segments=[segment([(2 * MIB, "active_allocated")], START + i * 2 * MIB) for i in range(n)])


def empty_segments(folder, n):
    return snapshot(folder, pair(START, 0), [segment([(2 * MIB, "inactive")], START + i * 2 * MIB) for i in range(n)])


# ---- streams, pools, devices


def streams(folder, n):
    """A segment and an allocation on each stream."""
    allocs = [
        e
        for i in range(n)
        for e in (event("segment_alloc", START + i * 2 * MIB, 2 * MIB, i, stream=i), event("alloc", START + i * 2 * MIB, MIB, i, stream=i))
    ]
    return snapshot(folder, allocs)


def streams_at_end(folder, n):
    return snapshot(folder, segments=[segment([(2 * MIB, "active_allocated")], START + i * 2 * MIB, stream=i) for i in range(n)])


def pools(folder, n):
    """A private pool for each allocation."""
    events, ends = [], []
    for i in range(n):
        at = START + i * 2 * MIB
        events += [event("segment_alloc", at, 2 * MIB, i, pool_id=(i + 1, 0)), event("alloc", at, 2 * MIB, i, pool_id=(i + 1, 0))]
        ends.append(segment([(2 * MIB, "active_allocated")], at, pool=(i + 1, 0)))
    return snapshot(folder, events, ends)


def devices(folder, n):
    return snapshot(folder, devices=[[room(BLOCK), *pair(START, 0)] for _ in range(n)])


# ---- texts and stacks


def frame(i):
    return {"name": f"function_{i}", "filename": f"/home/me/module_{i % 100}.py", "line": i % 1000}


def stacks(folder, n):
    outer = [frame(i) for i in range(1, 8)]
    return snapshot(folder, [room(n * BLOCK), *(event("alloc", START + i * BLOCK, BLOCK, i, frames=[frame(i), *outer]) for i in range(n))])


def frames(folder, n):
    """One stack of n frames, which a thousand allocations share."""
    stack = [frame(i) for i in range(n)]
    return snapshot(folder, [room(1000 * BLOCK), *(event("alloc", START + i * BLOCK, BLOCK, i, frames=stack) for i in range(1000))])


def deep_stacks(folder, n):
    """Stacks of n shared frames."""
    shared = [frame(i) for i in range(n)]
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i, frames=[frame(10**6 + i), *shared]) for i in range(200)]
    return snapshot(folder, [room(200 * BLOCK), *allocs])


def recursion(folder, n):
    """One stack of n times the same frame."""
    return snapshot(folder, [room(1000 * BLOCK), *(event("alloc", START + i * BLOCK, BLOCK, i, frames=[FRAME] * n) for i in range(4))])


def long_name(folder, n):
    """One name of n bytes, shared by ten thousand allocations."""
    named = [{**FRAME, "name": "x" * n}]
    return snapshot(folder, [room(BLOCK), *(e for i in range(10_000) for e in pair(START, i, frames=named))])


def long_names(folder, n):
    """Names of n bytes, each with stacks of its own."""
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i, frames=[{**FRAME, "name": f"{i:08}" + "x" * n}]) for i in range(200)]
    return snapshot(folder, [room(200 * BLOCK), *allocs])


def lines_of_long_name(folder, n):
    """Frames in n lines of one function whose name has 50,000 bytes."""
    name = "x" * 50_000
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i, frames=[{**FRAME, "name": name, "line": i}]) for i in range(n)]
    return snapshot(folder, [room(n * BLOCK), *allocs])


def sizes(folder, n):
    """Blocks of n sizes, which one line allocates."""
    allocs, at = [], START
    for i in range(1, n + 1):
        allocs.append(event("alloc", at, i * BLOCK, i))
        at += i * BLOCK
    return snapshot(folder, [room(at - START), *allocs])


def files(folder, n):
    """Frames in n files of one name."""
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i, frames=[{**FRAME, "filename": f"/home/me/part{i}/model.py"}]) for i in range(n)]
    return snapshot(folder, [room(n * BLOCK), *allocs])


def known_names(folder, n):
    """Stacks of frames with names that the analyses know, in files with paths of 20,000 bytes."""
    known = ("capture_begin", "forward", "backward", "step", "_call_impl", "zero_grad", "apply", "__init__")
    path = "/home/" + "x" * 20_000 + "/torch/nn/modules/module.py"
    allocs = []
    for i in range(n):
        stack = [{"name": name, "filename": path, "line": i} for name in known]
        allocs.append(event("alloc", START + i * BLOCK, BLOCK, i, frames=stack))
    return snapshot(folder, [room(n * BLOCK), *allocs])


def texts(folder, n):
    allocs = [event("alloc", START + i * BLOCK, BLOCK, i, user_metadata=f"text {i}", compile_context=f"{i}/0") for i in range(n)]
    return snapshot(folder, [room(n * BLOCK), *allocs])


def long_text(folder, n):
    """One text of n bytes, shared by two thousand allocations."""
    text = "x" * n
    return snapshot(folder, [room(BLOCK), *(e for i in range(2000) for e in pair(START, i, user_metadata=text, compile_context=text))])


def long_stack(folder, n):
    """A stack whose text has 64 KiB, shared by n pairs of events."""
    stack = [{"name": f"{i:08}" + "x" * 900, "filename": "/home/me/train.py", "line": 7} for i in range(70)]
    return snapshot(folder, [room(BLOCK), *(e for i in range(n) for e in pair(START, i, frames=stack))])


def changed(path):
    """The recording with other files, lines and sizes, to compare it with."""
    whole, frames = pickle.loads(path.read_bytes()), {}
    records = [e for trace in whole["device_traces"] for e in trace]
    records += [record for s in whole["segments"] for record in (s, *s["blocks"])]
    for record in records:
        for frame in record["frames"]:
            frames[id(frame)] = frame
        for size in ("size", "requested_size"):
            if record.get("action", "alloc") == "alloc" and size in record:
                record[size] *= 2
    for frame in frames.values():
        frame["filename"], frame["line"] = frame["filename"].replace("/home/", "/srv/", 1), frame["line"] + 1
    other = path.with_suffix(".changed.pickle")
    other.write_bytes(pickle.dumps(whole, protocol=4))
    return other


# ---- regions, steps, settings


def mark(stage, i, name):
    return {"stage": stage, "time_us": 10**15 + i, "name": name, "device": 0}


def with_pairs(folder, annotations, n=2000):
    return snapshot(folder, [room(BLOCK), *(e for i in range(n) for e in pair(START, i))], annotations=annotations)


def regions(folder, n):
    return with_pairs(folder, [mark(stage, i, f"region {i % 50}") for i in range(n) for stage in ("START", "END")])


def names_of_regions(folder, n):
    return with_pairs(folder, [mark(stage, i, f"region {i}") for i in range(n) for stage in ("START", "END")])


def nested_regions(folder, n):
    begins = [mark("START", i, f"region {i}") for i in range(n)]
    return with_pairs(folder, begins + [mark("END", 2 * n - i, f"region {i}") for i in reversed(range(n))])


def open_regions(folder, n):
    return with_pairs(folder, [mark("START", i, f"region {i % 50}") for i in range(n)])


def overlapping_regions(folder, n):
    """Each ends behind the beginning of n / 2 later ones."""
    marks = [(i, "START", i) for i in range(n)] + [(i + n // 2, "END", i) for i in range(n)]
    return with_pairs(folder, [mark(stage, at, f"region {i}") for at, stage, i in sorted(marks)])


def steps(folder, n):
    events, marks = [room(1000 * BLOCK)], []
    for i in range(n):
        marks.append(mark("START", 100 * i, f"ProfilerStep#{i}"))
        events += [event("alloc", START + k * BLOCK, BLOCK, 100 * i + k, frames=[frame(k)]) for k in range(8)]
        events += [e for k in range(8) for e in free(START + k * BLOCK, 100 * i + 10 + k)]
        marks.append(mark("END", 100 * i + 99, f"ProfilerStep#{i}"))
    return snapshot(folder, events, annotations=marks)


def settings(folder, n):
    return snapshot(folder, [room(BLOCK), *pair(START, 0)], conf=",".join(f"max_split_size_mb:{20 + i}" for i in range(n)))


# ---- other formats


def spans(folder, n):
    """Operators of a trace of torch.profiler, each with an allocation and its free."""
    events = []
    for i in range(n):
        common = {"pid": 1, "tid": 1, "ts": 1000.0 + 10 * i}
        events.append({"ph": "X", "cat": "cpu_op", "name": f"aten::op{i % 100}", "dur": 8.0, **common, "args": {"External id": i}})
        for k, size in enumerate((BLOCK, -BLOCK)):
            args = {"Total Reserved": 2 * MIB, "Total Allocated": BLOCK if k == 0 else 0, "Bytes": size, "Addr": START, "Device Id": 0, "Device Type": 1}
            events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **common, "ts": common["ts"] + 1 + k, "args": args})
    whole = {"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": 10**18, "traceEvents": events}
    path = pathlib.Path(folder) / "run.json"
    path.write_text(json.dumps(whole))
    return path


def nested_spans(folder, n):
    """Operators within each other, around one allocation."""
    spans = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i % 100}", "pid": 1, "tid": 1, "ts": 1000.0 + i, "dur": 4.0 * n - 2 * i, "args": {"External id": i}}
        for i in range(n)
    ]
    for k, size in enumerate((BLOCK, -BLOCK)):
        args = {"Total Reserved": 2 * MIB, "Total Allocated": BLOCK if k == 0 else 0, "Bytes": size, "Addr": START, "Device Id": 0, "Device Type": 1}
        spans.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1001.0 + n + k, "args": args})
    whole = {"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": 10**18, "traceEvents": spans}
    path = pathlib.Path(folder) / "run.json"
    path.write_text(json.dumps(whole))
    return path


def samples(folder, n):
    row = {"event": "sample", "allocated_bytes": 4096, "reserved_bytes": 2 * MIB, "device_used_bytes": 8 * MIB, "device_total_bytes": 1 << 30}
    path = pathlib.Path(folder) / "run.jsonl"
    lines = [json.dumps({"time_us": 10**15, "event": "start", "message": "pool on device 0"})]
    lines += [json.dumps({"time_us": 10**15 + 1000 * i, **row, "allocated_bytes": 4096 * (i % 100), "phase": f"phase {i % 50}"}) for i in range(n)]
    path.write_text("\n".join(lines) + "\n")
    return path


def csv_rows(folder, n):
    """A log of RMM."""
    path = pathlib.Path(folder) / "run.csv"
    with open(path, "w") as out:
        out.write("Thread,Time,Action,Pointer,Size,Stream\n")
        for i in range(n):
            time = f"{i // 3600000:02}:{i // 60000 % 60:02}:{i // 1000 % 60:02}.{i % 1000:03}000"
            out.write(f"1,{time},allocate,{START + i * BLOCK:#x},{BLOCK},0x0\n")
    return path


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def jax(folder, samples, lines=8, name=16):
    """A profile whose samples share one location with many lines, of functions with one long name."""
    types = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4))
    sample = field(2, field(1, varint(1)) + field(2, varint(1) + varint(64)))
    location = field(4, field(1, 1) + b"".join(field(4, field(1, 1) + field(2, i)) for i in range(lines)))
    function = field(5, field(1, 1) + field(2, 5) + field(4, 5))
    texts = b"".join(field(6, text) for text in (b"", b"allocations", b"count", b"space", b"bytes", b"x" * name))
    path = pathlib.Path(folder) / "run.prof"
    path.write_bytes(types + sample * samples + location + function + texts)
    return path


def nsys(folder, n):
    """An export of Nsight Systems with n events of memory."""
    path = pathlib.Path(folder) / "run.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=OFF")
    columns = "start INT, deviceId INT, address INT, bytes INT, memoryOperationType INT, correlationId INT, globalPid INT"
    db.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({columns})")
    db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (globalTid INT, correlationId INT, nameId INT, callchainId INT)")
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?,0,?,512,0,?,0)", [(i, START + i * BLOCK, i) for i in range(n)])
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1,?,?,NULL)", [(i, i % 100) for i in range(n)])
    db.executemany("INSERT INTO StringIds VALUES (?,?)", [(i, f"cudaMalloc_{i}") for i in range(100)])
    db.commit()
    db.close()
    return path


def shared_row(folder, n, page=65536, columns=32_000):
    """A database of n leaf pages; all cell pointers of a page lead to one row with 32,000 empty columns."""
    path = nsys(folder, 1)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA page_size={page}")
    db.execute("VACUUM")
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name='CUPTI_ACTIVITY_KIND_RUNTIME'").fetchone()
    db.close()
    data = bytearray(path.read_bytes())

    def number(value):
        out = [value & 0x7F]
        while value := value >> 7:
            out.insert(0, value & 0x7F | 0x80)
        return bytes(out)

    row = number(columns + 3) + bytes([8]) * columns
    cell = number(len(row)) + number(1) + row
    count, at = (page - 8 - len(cell)) // 2, page - len(cell)
    leaf = bytearray(page)
    leaf[0], leaf[3:5], leaf[5:7] = 13, count.to_bytes(2), at.to_bytes(2)
    leaf[8 : 8 + 2 * count], leaf[at:] = at.to_bytes(2) * count, cell
    first = len(data) // page + 1
    data += leaf * n
    inner, at = bytearray(page), page
    inner[0], inner[3:5], inner[8:12] = 5, (n - 1).to_bytes(2), (first + n - 1).to_bytes(4)
    for i in range(n - 1):
        cell = (first + i).to_bytes(4) + number(i + 1)
        at -= len(cell)
        inner[at : at + len(cell)], inner[12 + 2 * i : 14 + 2 * i] = cell, at.to_bytes(2)
    data[(root - 1) * page : root * page], data[28:32] = inner, (len(data) // page).to_bytes(4)
    path.write_bytes(data)
    return path


def ranks(folder, n):
    """A folder of recordings of ranks."""
    for rank in range(n):
        snapshot(folder, [room(BLOCK), *(e for i in range(20) for e in pair(START, i))], name=f"rank{rank}.pickle")
    return pathlib.Path(folder)


def compressed(folder, n):
    """Few bytes that expand to a recording with failures."""
    path = failures(folder, n)
    packed = path.with_suffix(".pickle.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 9))
    path.unlink()
    return packed


INPUTS = {
    "pairs of alloc and free": (pairs, 50_000),
    "live allocations": (live, 50_000),
    "free_requested": (pending, 30_000),
    "late free_completed": (late, 30_000),
    "free_completed alone": (frees, 50_000),
    "segment_alloc": (growths, 30_000),
    "segment_free": (churn, 30_000),
    "segment_map": (maps, 20_000),
    "segment_unmap": (unmaps, 30_000),
    "snapshot": (snapshots, 100_000),
    "unknown actions": (unknown, 100_000),
    "alloc at one address": (rebound, 50_000),
    "overlapping allocations": (overlapping, 20_000),
    "oom": (failures, 5_000),
    "oom and free blocks": (failures_and_holes, 2_500),
    "oom and blocks": (failures_over_blocks, 2_500),
    "oom that fit": (failures_that_fit, 5_000),
    "oom and segments": (failures_between_growth, 5_000),
    "oom, compressed": (compressed, 5_000),
    "leaking lines": (leaks, 1_000),
    "segments above max_split_size": (oversize, 5_000),
    "garbage collections": (collections, 5_000),
    "blocks": (blocks, 50_000),
    "free blocks": (holes, 50_000),
    "blocks that wait": (waiting, 50_000),
    "segments": (segments, 50_000),
    "free segments": (empty_segments, 50_000),
    "streams": (streams, 2_000),
    "streams at the end": (streams_at_end, 2_000),
    "pools": (pools, 2_000),
    "devices": (devices, 32),
    "stacks": (stacks, 20_000),
    "frames of a stack": (frames, 2_000),
    "frames of stacks": (deep_stacks, 500),
    "one frame repeated": (recursion, 50_000),
    "length of a name": (long_name, 50_000),
    "length of names": (long_names, 10_000),
    "lines of a long name": (lines_of_long_name, 2_000),
    "sizes": (sizes, 5_000),
    "files": (files, 2_000),
    "lines of known names": (known_names, 1_000),
    "texts": (texts, 30_000),
    "length of a text": (long_text, 50_000),
    "events of a long stack": (long_stack, 1_000),
    "regions": (regions, 50_000),
    "names of regions": (names_of_regions, 20_000),
    "nested regions": (nested_regions, 5_000),
    "regions without end": (open_regions, 20_000),
    "overlapping regions": (overlapping_regions, 5_000),
    "steps": (steps, 2_000),
    "settings": (settings, 2_000),
    "operators": (spans, 20_000),
    "nested operators": (nested_spans, 10_000),
    "samples": (samples, 20_000),
    "rows of RMM": (csv_rows, 50_000),
    "samples of JAX": (jax, 50_000),
    "samples and lines of JAX": (lambda folder, n: jax(folder, n, n), 500),
    "lines and names of JAX": (lambda folder, n: jax(folder, 500, n, 100 * n), 250),
    "rows of Nsight Systems": (nsys, 30_000),
    "pages of one shared row": (shared_row, 4),
    "ranks": (ranks, 64),
}

if __name__ == "__main__":
    name, count, out = sys.argv[1:]
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    print(INPUTS[name][0](out, int(count)))
