"""Checks Chrome traces against the schema and further rules; prints the peak of each counter and the sums of the slices, one JSON object
per line and file."""

import collections
import json
import pathlib
import sys

import jsonschema

SCHEMA = json.loads((pathlib.Path(__file__).parent / "trace_event.schema.json").read_text())
WHOLE = jsonschema.Draft202012Validator(SCHEMA)
PHASES = {
    phase: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{phase}", "$defs": SCHEMA["$defs"]})
    for phase in "MCbeXi"
}


def check(path, every):
    trace = json.loads(pathlib.Path(path).read_text())
    WHOLE.validate(trace)
    frames = trace["stackFrames"]
    for number, frame in frames.items():
        # A caller comes before its callees, so that walks end.
        assert frame.get("parent", -1) < int(number), frame
    peaks = collections.defaultdict(dict)
    opened, closed, last, bytes_of = {}, set(), {}, collections.Counter()
    open_regions = collections.defaultdict(list)
    for i, event in enumerate(trace["traceEvents"]):
        phase = event["ph"]
        # Validation is slow; a sample of similar events is enough.
        if i % every == 0 or phase in "MXi":
            PHASES[phase].validate(event)
        if "sf" in event:
            assert str(event["sf"]) in frames, event
        key = (event["pid"], event["name"])
        if phase == "C":
            assert last.get(key, 0) <= event["ts"], event
            last[key] = event["ts"]
            highest = peaks[str(event["pid"] - 1)]
            highest[event["name"]] = max(highest.get(event["name"], 0), event["args"]["bytes"])
        elif phase == "b":
            assert (event["cat"], event["id"]) not in opened, event
            opened[event["cat"], event["id"]] = event
            if event["cat"] != "region":
                bytes_of[event["cat"]] += event["args"].get("bytes", event["args"].get("block_bytes"))
        elif phase == "e":
            begin = opened[event["cat"], event["id"]]
            assert event["ts"] >= begin["ts"] and event["name"] == begin["name"], event
            closed.add((event["cat"], event["id"]))
        elif phase == "X":
            stack = open_regions[event["pid"], event["tid"]]
            while stack and stack[-1] <= event["ts"]:
                stack.pop()
            assert not stack or event["ts"] + event["dur"] <= stack[-1], event
            stack.append(event["ts"] + event["dur"])
    assert closed == opened.keys()
    return {"events": len(trace["traceEvents"]), "peaks": peaks, "bytes": bytes_of}


for path in sys.argv[2:]:
    print(json.dumps(check(path, int(sys.argv[1]))))
