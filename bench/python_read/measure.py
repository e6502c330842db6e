"""Measures reading 700,000 events from Python against the command: bench/run.py python_read

Builds the wheel and the command from this checkout, and installs the wheel in a separate environment. Three processes alternate: the
command, a program that reads the same file and computes the same result, and a program that only imports the package. The second program
prints the time of `vramscope.read` alone. `--wheel` and `--command` name existing builds.
"""
import argparse, os, pathlib, statistics, subprocess, tempfile, time, venv

from turns import LARGE, ROOT

PROGRAM = """
import sys, time
import vramscope
begin = time.perf_counter()
recording = vramscope.read(sys.argv[1])
print(time.perf_counter() - begin)
recording.info()
"""


def built(folder):
    """Builds the wheel and the command of this checkout; returns their paths."""
    # `./test --python` installs it.
    command = [ROOT / "target/python/bin/maturin", "build", "--profile", "dist", "--quiet", "--strip", "--out", folder]
    subprocess.run(command, cwd=ROOT, check=True)
    return next(pathlib.Path(folder).glob("*.whl")), ROOT / "target/dist/vramscope"


def timed(command):
    """Wall time and processor time of a process in seconds, and its output."""
    before, start = os.times(), time.perf_counter()
    printed = subprocess.run(command, stdout=subprocess.PIPE, cwd="/", check=True).stdout
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system, printed


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--command", type=pathlib.Path)
    arguments.add_argument("--wheel", type=pathlib.Path)
    arguments.add_argument("--recording", default=str(LARGE))
    arguments.add_argument("--runs", type=int, default=21)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel, command = given.wheel, given.command
        if not (wheel and command):
            wheel, command = built(folder)
        venv.create(f"{folder}/python", with_pip=True)
        python = f"{folder}/python/bin/python"
        # As in an installed package, pip compiles the bytecode.
        install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--compile", str(wheel.resolve())]
        subprocess.run(install, check=True)
        commands = {
            "command": [str(command.resolve()), "info", given.recording],
            "python": [python, "-c", PROGRAM, given.recording],
            "import": [python, "-c", "import vramscope"],
            "pass": [python, "-c", "pass"],
        }
        times = {name: [] for name in [*commands, "read"]}
        for run in range(given.runs + 1):
            for name, asked in commands.items():
                wall, cpu, printed = timed(asked)
                if run:
                    times[name].append((wall, cpu))
                if run and name == "python":
                    times["read"].append((float(printed), None))
    titles = {
        "command": "vramscope info, the whole process",
        "python": "the program, the whole process",
        "read": "  vramscope.read in it",
        "import": "  starting Python, import vramscope",
        "pass": "  starting Python alone",
    }
    for name, title in titles.items():
        walls = [wall for wall, _ in times[name]]
        cores = [cpu for _, cpu in times[name] if cpu is not None]
        of_cores = f", {statistics.median(cores):.3f} s of the cores" if cores else ""
        print(f"{title:<36}{statistics.median(walls):.3f} s ({min(walls):.3f} at least){of_cores}")
    walls = {name: [wall for wall, _ in of] for name, of in times.items()}
    started = [whole - start for whole, start in zip(walls["python"], walls["pass"])]
    print(f"beside the command, the middle of {given.runs} pairs:")
    for ours, what in (
        (walls["python"], "the whole process"),
        (started, "the whole process but for Python's own start"),
        (walls["read"], "vramscope.read"),
    ):
        ratios = [one / other for one, other in zip(ours, walls["command"])]
        print(f"  {statistics.median(ratios):.2f} {what}")


if __name__ == "__main__":
    main()
