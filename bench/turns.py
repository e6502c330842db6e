"""Times whole processes in alternating runs; shared by the benchmarks."""
import argparse, json, os, pathlib, statistics, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGE = ROOT.parent / "shared/data/large/resnet50-torch2.11-700k-events.pickle.zst"


def measure(command):
    """Seconds and peak MiB of one process."""
    start = time.perf_counter()
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        sys.exit(f"failed: {command}")
    return seconds, usage.ru_maxrss / 1024


def turns(commands, runs, measure=measure):
    """Results of `measure` for each command, run `runs` times, alternating, after one round that warms the caches."""
    results = {name: [] for name in commands}
    for i in range(runs + 1):
        for name, command in commands.items():
            result = measure(command)
            if i:
                results[name].append(result)
    return results


def line(name, results):
    seconds = [s for s, _ in results]
    median, memory = statistics.median(seconds), max(m for _, m in results)
    print(f"  {name:<32}{median:9.3f} s   ({min(seconds):.3f} to {max(seconds):.3f}){memory:9.0f} MiB at the peak")
    return median, memory


def decompressed(recording, folder):
    """The path of the uncompressed recording."""
    if recording.suffix != ".zst":
        return str(recording)
    file = f"{folder}/recording.pickle"
    subprocess.run(["zstd", "-dqf", str(recording), "-o", file], check=True)
    return file


def compressed(recording, folder):
    """The path of the recording compressed with zstd."""
    if recording.suffix == ".zst":
        return str(recording)
    file = f"{folder}/recording.pickle.zst"
    subprocess.run(["zstd", "-qf", str(recording), "-o", file], check=True)
    return file


def options(doc):
    """The options that the scripts for whole recordings share."""
    ap = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("recording", type=pathlib.Path, nargs="?", default=LARGE)
    ap.add_argument("--runs", type=int, default=7)
    ap.add_argument("--against", type=pathlib.Path, metavar="BINARY")
    ap.add_argument("--times", type=lambda text: [int(t) for t in text.split(",")], default=[1, 2, 4], metavar="N,N")
    return ap


def parsed(ap):
    """The options, and the binaries by name."""
    a = ap.parse_args()
    if not a.recording.exists():
        sys.exit(f"no recording at {a.recording}; name one")
    binaries = {"vramscope": str(ROOT / "target/dist/vramscope")}
    if a.against:
        binaries["against"] = str(a.against.resolve())
    return a, binaries


def grown(file, folder, binaries, command, a):
    """Prints how `BINARY COMMAND FILE` grows with the number of events, against the read of the same file."""
    for times in a.times:
        long = f"{folder}/{times}.pickle"
        subprocess.run([str(ROOT / "target/dist/repeat"), file, long, str(times)], check=True)
        facts = [binaries["vramscope"], "info", long, "--json"]
        facts = json.loads(subprocess.run(facts, capture_output=True, check=True).stdout)
        events = sum(d["events"] for d in facts["devices"])
        commands = {f"{name} {c}": [binary, c, long] for name, binary in binaries.items() for c in ("info", command)}
        print(f"{times} times over, {events:,} events:")
        # The longest take minutes, so their noise is relatively small.
        results = {name: line(name, r) for name, r in turns(commands, a.runs if times < 10 else min(a.runs, 3)).items()}
        for name in binaries:
            (read, read_memory), (whole, memory) = results[f"{name} info"], results[f"{name} {command}"]
            print(f"  {name}: {command} takes {whole / read:.2f} times the read, "
                  f"and {(memory - read_memory) * 2**20 / events:.1f} bytes an event more at its peak")
        os.remove(long)
