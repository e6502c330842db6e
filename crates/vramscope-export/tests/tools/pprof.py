"""Decodes profiles with Google's protobuf library, using a description of profile.proto built here; checks that every number refers to an
entry, and prints the sums of the values by device, one JSON object per line and file."""

import collections
import gzip
import json
import pathlib
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

INT64, UINT64, STRING, BOOL, MESSAGE = 3, 4, 9, 8, 11
MESSAGES = {
    "ValueType": [("type", 1, INT64), ("unit", 2, INT64)],
    "Label": [("key", 1, INT64), ("str", 2, INT64), ("num", 3, INT64), ("num_unit", 4, INT64)],
    "Sample": [("location_id", 1, [UINT64]), ("value", 2, [INT64]), ("label", 3, ["Label"])],
    "Line": [("function_id", 1, UINT64), ("line", 2, INT64)],
    "Location": [
        ("id", 1, UINT64), ("mapping_id", 2, UINT64), ("address", 3, UINT64), ("line", 4, ["Line"]),
        ("is_folded", 5, BOOL),
    ],
    "Function": [
        ("id", 1, UINT64), ("name", 2, INT64), ("system_name", 3, INT64), ("filename", 4, INT64),
        ("start_line", 5, INT64),
    ],
    "Profile": [
        ("sample_type", 1, ["ValueType"]), ("sample", 2, ["Sample"]), ("location", 4, ["Location"]),
        ("function", 5, ["Function"]), ("string_table", 6, [STRING]), ("drop_frames", 7, INT64),
        ("keep_frames", 8, INT64), ("time_nanos", 9, INT64), ("duration_nanos", 10, INT64),
        ("period_type", 11, "ValueType"), ("period", 12, INT64), ("comment", 13, [INT64]),
        ("default_sample_type", 14, INT64),
    ],
}
ONCE = [number for _, number, kind in MESSAGES["Profile"] if not isinstance(kind, list)]


def message():
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools", syntax="proto3")
    for name, fields in MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, number, kind in fields:
            made = described.field.add(name=field, number=number, label=3 if isinstance(kind, list) else 1)
            kind = kind[0] if isinstance(kind, list) else kind
            if isinstance(kind, str):
                made.type, made.type_name = MESSAGE, f".perftools.{kind}"
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.Profile"))


def fields(data):
    """Yields the field numbers of a message in order. Parsing would merge fields that occur twice."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        yield key >> 3
        length = varint()
        if key & 7 == 2:
            at += length
        else:
            assert key & 7 == 0, key


def check(path):
    data = gzip.decompress(pathlib.Path(path).read_bytes())
    counts = collections.Counter(fields(data))
    # pprof interprets a second time as a second profile.
    assert all(counts[number] <= 1 for number in ONCE), counts
    profile = message()()
    profile.ParseFromString(data)
    assert len(unknown_fields.UnknownFieldSet(profile)) == 0
    text = profile.string_table
    assert text[0] == "" and len(set(text)) == len(text)
    types = [text[t.type] + "/" + text[t.unit] for t in profile.sample_type]
    functions = {f.id: text[f.name] for f in profile.function}
    assert 0 not in functions and len(functions) == len(profile.function)
    locations = {l.id: [functions[line.function_id] for line in l.line] for l in profile.location}
    assert 0 not in locations and len(locations) == len(profile.location)
    sums = collections.defaultdict(collections.Counter)
    for sample in profile.sample:
        assert sample.location_id and all(locations[i] for i in sample.location_id)
        assert len(sample.value) == len(types)
        # pprof drops a number 0 without a unit.
        labels = {text[l.key]: text[l.str] or l.num for l in sample.label if l.str or l.num or l.num_unit}
        assert labels["bytes"] * sample.value[2] == sample.value[3], labels
        for name, value in zip(types, sample.value):
            sums[str(labels["device"])][name] += value
    return {
        "types": types,
        "default": text[profile.default_sample_type],
        "sums": sums,
        "samples": len(profile.sample),
        "comments": [text[c] for c in profile.comment],
    }


for path in sys.argv[1:]:
    print(json.dumps(check(path)))
