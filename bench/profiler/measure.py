"""Measures the cost of profiling, for vramscope, the Python original and its successor, in one run.

    bench/run.py profiler [--runs N] [--seconds S]

Measures a profiled call of an empty function with different options, a monitor at 100 Hz as its share of one core over S
seconds, and a malloc and free while a profiler is active. Prints medians of alternating runs, each a separate process.
The originals run in target/gpumemprof, which the first run creates with pip. They use a stand-in for PyTorch with a GPU
(originals/torch.py) that returns at once. Run it on an idle machine.
"""
import argparse, json, os, statistics, subprocess, sys

from turns import ROOT

ORIGINALS = {"gpumemprof": "gpu-memory-profiler==0.2.3.post1", "stormlog": "stormlog==0.4.3"}
HZ = 100
VENV = ROOT / "target/gpumemprof"
OURS = [ROOT / "target/dist/profiler-cost"]


def prepare():
    if not (VENV / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    # Of their dependencies, the measured code needs only psutil.
    pip = [VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "psutil"], check=True)
    subprocess.run([*pip, "--no-deps", *ORIGINALS.values()], check=True)


def turns(runs, *what):
    """Runs each program `runs` times, alternating; returns the outputs as a list for each program."""
    programs = {"ours": OURS}
    for package in ORIGINALS:
        programs[package] = [VENV / "bin/python", ROOT / "bench/profiler/originals/cost.py", package]
    told = {name: [] for name in programs}
    for _ in range(runs):
        for name, command in programs.items():
            p = subprocess.run([*command, *map(str, what)], cwd=ROOT, check=True, capture_output=True, text=True)
            told[name].append(json.loads(p.stdout))
    return told


def median(told, *keys):
    """The median of the number at the path `keys`; None if a result lacks it."""
    def below(value):
        for key in keys:
            value = value.get(key) if value else None
        return value
    values = [below(value) for value in told]
    return None if None in values else statistics.median(values)


def row(name, ours, theirs, unit, digits):
    cells = f"{ours:9.{digits}f} {unit:<2}"
    for value in theirs:
        ratio = f"{value / ours:,.0f} x" if value and ours > 0 else ""
        cells += "" if value is None else f"{value:12.{digits}f} {unit:<2}{ratio:>10}"
    print(f"  {name:<34}{cells}".rstrip())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=10)
    a = ap.parse_args()
    prepare()
    print(f"medians of {a.runs} runs; load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores before the first")
    versions = [f"{package} {spec.split('==')[1]}" for package, spec in ORIGINALS.items()]
    print(f"{'':<36}{'ours':>12}" + "".join(f"{version:>25}" for version in versions))

    calls = turns(a.runs, "calls")
    print("a profiled call of an empty function (goal: 2 us as it comes)")
    for name, ours, theirs in (
        ("as it comes", "default", "default"),
        ("nothing switched on", "nothing", "nothing"),
        ("allocations (tensors) alone", "track_allocations", "track_tensors"),
        ("host memory alone", "track_cpu_memory", "track_cpu_memory"),
        ("stacks alone", "collect_stack_traces", "collect_stack_traces"),
        ("leaks across calls alone", "find_leaks", None),
    ):
        us = [median(told, "profile_function_ns", ours if program == "ours" else theirs) for program, told in calls.items()]
        row(name, us[0] / 1e3, [ns and ns / 1e3 for ns in us[1:]], "us", 2)
    objects = " and ".join(f"{median(calls[package], 'objects'):,.0f}" for package in ORIGINALS)
    print(f"  Theirs are lower bounds: the counters they ask are constants here, nothing waits for a GPU, and they search")
    print(f"  {objects} Python objects for tensors. By itself stormlog does not search, gpumemprof does.")

    monitors = turns(a.runs, "monitor", HZ, a.seconds)
    print(f"a monitor at {HZ} Hz for {a.seconds:g} s, of one core (goal: 0.5 %)")

    def share(told, key):
        return statistics.median((t[key] - t["idle_cpu_s"]) / t["wall_s"] * 100 for t in told)
    shares = [share(told, "cpu_s") for told in monitors.values()]
    row("processor time", shares[0], shares[1:], "%", 3)
    row("a thread that only wakes up", share(monitors["ours"], "waking_cpu_s"), [], "%", 3)
    samples = [median(told, "samples") for told in monitors.values()]
    print(f"  {'samples':<34}{samples[0]:9.0f}" + "".join(f"{n:15.0f}{'':10}" for n in samples[1:]).rstrip())

    print("malloc and free of a cached block of 1 KiB, 30 frames deep")
    blocks = {name: median(calls["ours"], "malloc_and_free_ns", name) for name in calls["ours"][0]["malloc_and_free_ns"]}
    without = blocks.pop("no profiler")
    print(f"  {'no profiler':<34}{without:9.1f} ns")
    for name, ns in sorted(blocks.items(), key=lambda b: b[1]):
        print(f"  {name:<34}{ns:9.1f} ns{ns - without:+10.1f} ns")
    print(f"load {os.getloadavg()[0]:.2f} after the last")


if __name__ == "__main__":
    main()
