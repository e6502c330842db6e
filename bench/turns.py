"""Whole processes timed in turns: what the scripts beside this one share."""
import os, pathlib, statistics, subprocess, sys, time

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


def turns(commands, runs):
    """Each command `runs` times, taking turns after one round that warms the caches."""
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
    """The recording as a file that is not compressed."""
    if recording.suffix != ".zst":
        return str(recording)
    file = f"{folder}/recording.pickle"
    subprocess.run(["zstd", "-dqf", str(recording), "-o", file], check=True)
    return file


def compressed(recording, folder):
    """The recording as a file that is compressed with zstd."""
    if recording.suffix == ".zst":
        return str(recording)
    file = f"{folder}/recording.pickle.zst"
    subprocess.run(["zstd", "-qf", str(recording), "-o", file], check=True)
    return file


def grown(file, folder, command, runs):
    """How the time of `command FILE` grows with the events."""
    files = {}
    for times in (1, 2, 4):
        files[times] = f"{folder}/{times}.pickle"
        subprocess.run([str(ROOT / "target/release/repeat"), file, files[times], str(times)], check=True)
    results = turns({f"{t}x": [*command, f] for t, f in files.items()}, runs)
    medians = {name: line(name, r)[0] for name, r in results.items()}
    print("  relative to 1x: " + ", ".join(f"{name} {seconds / medians['1x']:.2f}" for name, seconds in medians.items()))
