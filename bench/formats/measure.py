"""Measures the reading of each format, in nanoseconds of processor time an event, beside a pickle of the same events.

    bench/run.py formats [--events N] [--runs N] [--binary BINARY] [FORMAT ...]

Makes a recording of about N events (default: 200,000) in each format, from the samples in fuzz/corpus/read and examples, and runs
`vramscope info` on it and on the pickle that `vramscope convert` makes of it, alternating. The time of the small sample, which is that of
the process, is subtracted. A memory profile of JAX has no events, so its blocks are counted. BINARY is another build of the command.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import pathlib
import pickle
import statistics
import subprocess
import sys
import tempfile

from turns import ROOT, turns

SAMPLES = ROOT / "fuzz/corpus/read"
EXAMPLE = ROOT / "examples/leak.pickle"


def csv(sample, out, events):
    """Repeats all rows behind the header."""
    header, _, rows = (SAMPLES / sample).read_text().partition("\n")
    count = sum("MALLOC" in row or "FREE" in row or "allocate" in row or "free" in row for row in rows.splitlines())
    with open(out, "w") as f:
        f.write(header + "\n")
        for _ in range(events // count):
            f.write(rows)


def torch_profiler(out, events):
    """Repeats all events of the trace, each time later. A memory event has about 4.6 kB of operators around it, so there are fewer."""
    trace = json.loads(gzip.decompress((SAMPLES / "torch-profiler").read_bytes()))
    repeated = trace.pop("traceEvents")
    times = [e["ts"] for e in repeated if "ts" in e]
    memory = sum(e.get("name") == "[memory]" for e in repeated)
    with open(out, "w") as f:
        f.write(json.dumps(trace)[:-1] + ', "traceEvents": [')
        for copy in range(max(1, events // 10 // memory)):
            later = copy * (max(times) - min(times) + 1)
            shifted = [{**e, "ts": e["ts"] + later} if "ts" in e else e for e in repeated]
            f.write(("," if copy else "") + json.dumps(shifted)[1:-1])
        f.write("]}")


def nsys(out, events):
    script = ROOT / "crates/vramscope-trace/tests/formats/nsys.py"
    subprocess.run([sys.executable, script, out, "4096", str(events // 4)], check=True)


def repeated(snapshot, events):
    """The snapshot with each trace entry repeated. The entries of one stack share it, as PyTorch writes them."""
    trace = snapshot["device_traces"][0]
    snapshot["device_traces"][0] = [dict(e) for _ in range(max(1, events // len(trace))) for e in trace]
    return snapshot


def snapshot(sample, out, events):
    pathlib.Path(out).write_bytes(pickle.dumps(repeated(pickle.loads(sample.read_bytes()), events), protocol=4))


def as_json(out, events):
    pathlib.Path(out).write_text(json.dumps(repeated(pickle.loads(EXAMPLE.read_bytes()), events)))


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def jax(out, events):
    """Repeats all samples of the profile: field 2 of the message."""
    data, at, samples = (SAMPLES / "jax").read_bytes(), 0, []
    while at < len(data):
        start = at
        key, at = varint(data, at)
        length, end = varint(data, at)
        at = end + length if key & 7 == 2 else end
        if key >> 3 == 2:
            samples.append(data[start:at])
    with open(out, "wb") as f:
        f.write(data)
        for _ in range(events // len(samples)):
            f.write(b"".join(samples))


# The makers, with the small file of the same format. That of a log is made from it.
FORMATS = {
    "pickle": (EXAMPLE, lambda out, n: snapshot(EXAMPLE, out, n)),
    "json": (SAMPLES / "json", as_json),
    "log": (SAMPLES / "log4", None),
    "rmm": (SAMPLES / "rmm", lambda out, n: csv("rmm", out, n)),
    "memscope": (SAMPLES / "memscope", lambda out, n: csv("memscope", out, n)),
    "torch-profiler": (SAMPLES / "torch-profiler", torch_profiler),
    "nsys": (SAMPLES / "nsys", nsys),
    "paddle": (SAMPLES / "paddle", lambda out, n: snapshot(SAMPLES / "paddle", out, n)),
    "mlx": (SAMPLES / "mlx", lambda out, n: snapshot(SAMPLES / "mlx", out, n)),
    "jax": (SAMPLES / "jax", jax),
}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True).stdout


def measure(command):
    """Processor seconds and peak MiB of one process."""
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    if status != 0:
        sys.exit(f"failed: {command}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def in_a_child(work, *arguments):
    """Runs a function in a process of its own: the peak of a child includes the memory of the process that starts it."""
    child = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    child.start()
    child.join()
    if child.exitcode:
        sys.exit(f"failed: {work}")


def measured(binary, name, folder, a):
    """One line about a format."""
    (sample, make), file, other = FORMATS[name], f"{folder}/{name}", f"{folder}/{name}.pickle"
    if make:
        in_a_child(make, file, a.events)
        run(binary, "convert", file, other)
    else:
        in_a_child(snapshot, EXAMPLE, other, a.events)
        run(binary, "export", "--format", "log", "-o", file, other)
    devices = json.loads(run(binary, "info", file, "--json"))["devices"]
    count = sum(d["events"] for d in devices) or sum(d["blocks"] for d in devices)
    commands = {"sample": [binary, "info", sample], "whole": [binary, "info", file], "pickle": [binary, "info", other]}
    results = turns(commands, a.runs, measure)
    seconds = {of: statistics.median(s for s, _ in r) for of, r in results.items()}
    memory = {of: max(m for _, m in r) for of, r in results.items()}
    ns = {of: (seconds[of] - seconds["sample"]) / count * 1e9 for of in ("whole", "pickle")}
    size = pathlib.Path(file).stat().st_size
    rate = size / (seconds["whole"] - seconds["sample"]) / 1e6
    print(
        f"  {name:<15}{count:>10,} events{size / count:7.0f} bytes an event{ns['whole']:7.0f} ns an event ({rate:5.0f} MB/s), "
        f"{memory['whole']:4.0f} MiB at the peak; as pickle {ns['pickle']:5.0f} ns, {memory['pickle']:4.0f} MiB",
        flush=True,
    )


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(FORMATS)} (default: all)")
    ap.add_argument("--events", type=int, default=200_000)
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--binary", type=pathlib.Path)
    a = ap.parse_args()
    binary = a.binary or ROOT / "target/dist/vramscope"
    with tempfile.TemporaryDirectory() as folder:
        for name in a.formats or FORMATS:
            measured(binary, name, folder, a)


if __name__ == "__main__":
    main()
