"""The schema of snapshots of each PyTorch release, as data, and a check of pickles against it.

    python3 snapshot_schema.py [--strict] RELEASE FILE...

Prints one line for each difference, and exits with 1 if there are any. The script uses Python's unpickler and is
independent of vramscope. Sources of the tables: torch/csrc/cuda/Module.cpp (`_cuda_memorySnapshot`),
c10/cuda/CUDACachingAllocator.cpp (`snapshot`, `record_trace`) and the types in torch/cuda/_memory_viz.py. A test checks
the tables with recordings of 2.6, 2.11 and 2.15. It uses `--strict`, which allows no key that the release does not write.
"""

import pickle
import sys

INT, FLOAT, BOOL, STR, LIST, DICT, TUPLE = int, float, bool, str, list, dict, tuple


def since(release, table):
    """Keys that a release introduced."""
    return [(release, key, kind) for key, kind in table.items()]


# (first release, key, type): every snapshot of that release and later has the key.
SNAPSHOT = since((2, 6), {
    "segments": LIST,
    "device_traces": LIST,
    "allocator_settings": DICT,
    "external_annotations": LIST,
}) + since((2, 15), {"host_segments": LIST, "host_traces": LIST})

SETTINGS = since((2, 6), {
    "PYTORCH_CUDA_ALLOC_CONF": STR,
    "max_split_size": INT,
    "garbage_collection_threshold": FLOAT,
    "expandable_segments": BOOL,
    "pinned_num_register_threads": INT,
    "release_lock_on_cudamalloc": BOOL,
    "pinned_use_cuda_host_register": BOOL,
    "roundup_power2_divisions": DICT,
}) + since((2, 11), {
    "graph_capture_record_stream_reuse": BOOL,
}) + since((2, 15), {"max_round_threshold": INT, "max_cached_size": INT})

SEGMENT = since((2, 6), {
    "device": INT,
    "address": INT,
    "total_size": INT,
    "allocated_size": INT,
    "active_size": INT,
    "requested_size": INT,
    "stream": INT,
    "segment_type": STR,
    "segment_pool_id": TUPLE,
    "is_expandable": BOOL,
    "frames": LIST,
    "blocks": LIST,
})

BLOCK = since((2, 6), {"address": INT, "size": INT, "requested_size": INT, "state": STR, "frames": LIST})

# In addition to `addr`, which is `device_free` in `oom`.
EVENT = since((2, 6), {"action": STR, "size": INT, "stream": INT, "time_us": INT}) + since((2, 11), {
    "compile_context": STR,
    "user_metadata": STR,
}) + since((2, 15), {"pool_id": TUPLE})

FRAME = since((2, 6), {"name": STR, "filename": STR, "line": INT})
ANNOTATION = since((2, 6), {"stage": STR, "name": STR, "device": INT, "time_us": INT})

# Optional keys.
MAYBE = {
    "segment": {"forward_frames": LIST},
    "block": {"forward_frames": LIST},
    "event": {"frames": LIST, "forward_frames": LIST, "internal_metadata": STR, "category": STR},
    "frame": {"fx_node_op": STR, "fx_node_name": STR, "fx_node_target": STR, "fx_original_trace": STR},
}

# Keys of later releases that vramscope writes for every release, because their values are known.
BEYOND = {
    "snapshot": {"trace_alloc_overflowed": LIST, "trace_alloc_max_entries": LIST, "device_total_bytes": LIST},
    "event": {"pool_id": TUPLE, "user_metadata": STR},
}

STATES = {"active_allocated", "active_pending_free", "inactive"}
ACTIONS = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
    "snapshot", "oom",
}
DIVISIONS = [str(1 << i) for i in range(16)]


class Check:
    def __init__(self, release, strict):
        self.release, self.strict, self.found = release, strict, []

    def say(self, where, what):
        self.found.append(f"{where} {what}")

    def record(self, where, kind, table, value, also=()):
        """Checks the keys of a dictionary and the types of their values. Returns whether all required keys exist."""
        if type(value) is not dict:
            self.say(where, f"is a {type(value).__name__}")
            return False
        must = {key: kind for first, key, kind in table if first <= self.release} | dict(also)
        may = dict(MAYBE.get(kind, {}))
        if not self.strict:
            may |= BEYOND.get(kind, {})
        for key in must.keys() - value.keys():
            self.say(where, f"has no `{key}`")
        for key, item in value.items():
            expected = must.get(key, may.get(key))
            if expected is None:
                self.say(where, f"has `{key}`, which {self.release} does not write")
            elif type(item) is not expected:
                self.say(where, f"`{key}` is a {type(item).__name__}, not a {expected.__name__}")
        return must.keys() <= value.keys()

    def pair(self, where, pool):
        if len(pool) != 2 or any(type(n) is not int for n in pool):
            self.say(where, f"{pool} is no pool")

    def frames(self, where, frames):
        for i, frame in enumerate(frames):
            self.record(f"{where}.frames[{i}]", "frame", FRAME, frame)

    def segment(self, where, segment):
        if not self.record(where, "segment", SEGMENT, segment):
            return
        self.frames(where, segment["frames"])
        self.pair(where, segment["segment_pool_id"])
        if segment["segment_type"] not in ("small", "large"):
            self.say(where, f"is {segment['segment_type']!r}")
        sums = dict(total_size=0, allocated_size=0, active_size=0, requested_size=0)
        for i, block in enumerate(segment["blocks"]):
            at = f"{where}.blocks[{i}]"
            if not self.record(at, "block", BLOCK, block):
                return
            self.frames(at, block["frames"])
            if block["state"] not in STATES:
                self.say(at, f"is {block['state']!r}")
            if block["state"] == "inactive" and block["frames"]:
                self.say(at, "is inactive and has frames")
            if block["address"] != segment["address"] + sums["total_size"]:
                self.say(at, "does not begin where the block before ends")
            sums["total_size"] += block["size"]
            sums["allocated_size"] += block["size"] * (block["state"] == "active_allocated")
            sums["active_size"] += block["size"] * (block["state"] != "inactive")
            sums["requested_size"] += block["requested_size"] * (block["state"] != "inactive")
        for key, bytes_ in sums.items():
            if segment[key] != bytes_:
                self.say(where, f"`{key}` is {segment[key]}, and its blocks sum up to {bytes_}")

    def event(self, where, event):
        if type(event) is not dict:
            return self.say(where, f"is a {type(event).__name__}")
        address = "device_free" if event.get("action") == "oom" else "addr"
        if not self.record(where, "event", EVENT, event, {address: INT}):
            return
        if event["action"] not in ACTIONS:
            self.say(where, f"is {event['action']!r}")
        self.frames(where, event.get("frames", []))
        if "pool_id" in event:
            self.pair(where, event["pool_id"])

    def snapshot(self, s):
        if not self.record("the snapshot", "snapshot", SNAPSHOT, s):
            return
        settings = s["allocator_settings"]
        if self.record("allocator_settings", "settings", SETTINGS, settings):
            divisions = settings["roundup_power2_divisions"]
            if list(divisions) != DIVISIONS or any(type(n) is not int for n in divisions.values()):
                self.say("allocator_settings", f"divides {divisions}")
        order = [(g.get("device"), g.get("address")) for g in s["segments"]]
        if order != sorted(order):
            self.say("segments", "are not in order")
        for i, segment in enumerate(s["segments"]):
            self.segment(f"segments[{i}]", segment)
            # The page looks up the events of a device by its number.
            if not 0 <= segment["device"] < len(s["device_traces"]):
                self.say(f"segments[{i}]", f"is of device {segment['device']}, which has no list of events")
        for device, trace in enumerate(s["device_traces"]):
            if type(trace) is not list:
                self.say(f"device_traces[{device}]", f"is a {type(trace).__name__}")
                continue
            for i, event in enumerate(trace):
                self.event(f"device_traces[{device}][{i}]", event)
        for i, annotation in enumerate(s["external_annotations"]):
            if self.record(f"external_annotations[{i}]", "annotation", ANNOTATION, annotation):
                if annotation["stage"] not in ("START", "END"):
                    self.say(f"external_annotations[{i}]", f"is {annotation['stage']!r}")
        for i, segment in enumerate(s.get("host_segments", [])):
            self.segment(f"host_segments[{i}]", segment)
        for i, event in enumerate(s.get("host_traces", [])):
            self.event(f"host_traces[{i}]", event)
        for key in ("trace_alloc_overflowed", "trace_alloc_max_entries", "device_total_bytes"):
            if key in s and len(s[key]) != len(s["device_traces"]):
                self.say(key, "is not one of each device")


def main(args):
    strict = args[0] == "--strict"
    release, *files = args[strict:]
    release = tuple(int(n) for n in release.split(".")[:2])
    found = 0
    for file in files:
        with open(file, "rb") as f:
            snapshot = pickle.load(f)
        check = Check(release, strict)
        check.snapshot(snapshot)
        found += len(check.found)
        for line in check.found[:20]:
            print(f"{file}: {line}")
        if len(check.found) > 20:
            print(f"{file}: and {len(check.found) - 20} more")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
