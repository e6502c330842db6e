#!/usr/bin/env python3
"""Measures the reading of other tools' formats, in nanoseconds an event, beside a pickle of the same events.

    bench/read_formats.py [--events N] [--runs N] [--binary BINARY]

Makes a recording of about N events (default: 200,000) in each format from the samples in fuzz/corpus/read, and runs
`vramscope info` on it and on the pickle that `vramscope convert` makes of it, alternating. The time of the small sample,
which is that of the process, is subtracted. BINARY is a build of the command (default: a new one, profile `dist`).
"""
import argparse, json, pathlib, statistics, subprocess, sys, tempfile

from turns import ROOT, turns

SAMPLES = ROOT / "fuzz/corpus/read"


def csv(sample, out, events):
    """Repeats all rows behind the header."""
    header, _, rows = (SAMPLES / sample).read_text().partition("\n")
    with open(out, "w") as f:
        f.write(header + "\n")
        for _ in range(events // rows.count("\n")):
            f.write(rows)


def torch_profiler(out, events):
    """Repeats all events of the trace."""
    trace = json.loads((SAMPLES / "torch-profiler").read_text())
    memory = sum(e.get("name") == "[memory]" for e in trace["traceEvents"])
    trace["traceEvents"] *= max(1, events // memory)
    pathlib.Path(out).write_text(json.dumps(trace))


def nsys(out, events):
    script = ROOT / "crates/vramscope-trace/tests/formats/nsys.py"
    subprocess.run([sys.executable, script, out, "4096", str(events // 2)], check=True)


def paddle(out, events):
    """Repeats the events, with a time each."""
    import pickle

    snapshot = pickle.loads((SAMPLES / "paddle").read_bytes())
    trace = snapshot["device_traces"][0]
    snapshot["device_traces"][0] = [dict(e) for _ in range(events // len(trace)) for e in trace]
    pathlib.Path(out).write_bytes(pickle.dumps(snapshot, protocol=4))


FORMATS = {
    "rmm": lambda out, n: csv("rmm", out, n),
    "memscope": lambda out, n: csv("memscope", out, n),
    "torch-profiler": torch_profiler,
    "nsys": nsys,
    "paddle": paddle,
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--events", type=int, default=200_000)
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--binary", type=pathlib.Path)
    a = ap.parse_args()
    binary = a.binary or ROOT / "target/dist/vramscope"
    if not a.binary:
        build = ["cargo", "build", "--profile", "dist", "--quiet", "-p", "vramscope-cli"]
        subprocess.run(build, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in FORMATS.items():
            file, pickle = f"{folder}/{name}", f"{folder}/{name}.pickle"
            make(file, a.events)
            subprocess.run([binary, "convert", file, pickle], check=True, stderr=subprocess.DEVNULL)
            told = subprocess.run([binary, "info", file, "--json"], check=True, capture_output=True)
            events = sum(d["events"] for d in json.loads(told.stdout)["devices"])
            commands = {"sample": [binary, "info", SAMPLES / name], "whole": [binary, "info", file], "pickle": [binary, "info", pickle]}
            results = {of: statistics.median(s for s, _ in r) for of, r in turns(commands, a.runs).items()}
            ns = {of: (results[of] - results["sample"]) / events * 1e9 for of in ("whole", "pickle")}
            size = pathlib.Path(file).stat().st_size / events
            print(f"  {name:<16}{events:>10,} events{size:7.0f} bytes an event{ns['whole']:8.0f} ns an event; as pickle {ns['pickle']:.0f} ns")


if __name__ == "__main__":
    main()
