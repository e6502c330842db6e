"""Reading 700,000 events from Python beside the command: python3 bench/python/read.py --command PROGRAM --package FOLDER

PROGRAM is the command and FOLDER holds the package `vramscope` with its native part, both built with --release. Both take
turns; each run is a process of its own, and `import` says what of Python's time is the start of the interpreter.
"""
import argparse, os, pathlib, statistics, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from turns import LARGE, ROOT

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--command", default=str(ROOT / "target/release/vramscope"))
arguments.add_argument("--package", required=True)
arguments.add_argument("--recording", default=str(LARGE))
arguments.add_argument("--runs", type=int, default=21)
given = arguments.parse_args()

environment = os.environ | {"PYTHONPATH": given.package}
python = lambda program: [sys.executable, "-c", f"import os, vramscope\n{program}\nos._exit(0)"]
commands = {
    "command": [given.command, "info", given.recording],
    "python": python(f"recording = vramscope.read({given.recording!r}); recording.info()"),
    "import": python(""),
}
seconds = {name: [] for name in commands}
for run in range(given.runs + 1):
    for name, command in commands.items():
        before = os.times()
        start = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        wall, after = time.perf_counter() - start, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        if run:
            seconds[name].append((wall, cpu))
for name, times in seconds.items():
    wall, cpu = (statistics.median(of) for of in zip(*times))
    print(f"  {name:<10}{wall:8.3f} s by the clock ({min(t for t, _ in times):.3f} at least), {cpu:.3f} s of the cores")
for what, of in (("by the clock", 0), ("of the cores", 1)):
    ratios = [p[of] / c[of] for p, c in zip(seconds["python"], seconds["command"])]
    print(f"  Python beside the command, {what}: {statistics.median(ratios):.2f}, the middle of {given.runs} pairs")
