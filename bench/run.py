#!/usr/bin/env python3
"""Runs a benchmark: each has a folder with measure.py or measure.mjs.

    bench/run.py --list
    bench/run.py [--no-build] [--python PYTHON] NAME [OPTION...]
    bench/run.py NAME --help

Builds the command and the tools first, with the profile `dist`. PYTHON is the interpreter for benchmarks that need PyTorch or CuPy
(default: that of `./test --torch` or `./test --cupy`). Run benchmarks on an idle machine.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
COMMAND = ROOT / "target/dist/vramscope"
WORKLOADS = ROOT / "acceptance/workloads"
BOTH = ("vramscope-cli", "vramscope-bench")


@dataclasses.dataclass
class Measure:
    """A benchmark: its subject, the needed programs, how it starts, and the crates that it measures."""

    what: str
    needs: tuple[str, ...] = ()
    start: str = "here"
    builds: tuple[str, ...] = ("vramscope-cli",)


MEASURES = {
    "pool": Measure("the pool, its hooks and its history beside glibc's malloc, in one run", builds=("vramscope-bench",)),
    "read": Measure("reading beside CPython's unpickler, on the same file in the same run", ("zstd", "taskset"), builds=BOTH),
    "formats": Measure("reading of each format, in processor time an event, beside a pickle of the same events"),
    "replay": Measure("events per second on one core, and the time of the whole command", ("zstd",), builds=BOTH),
    "engine": Measure("the page's engine beside the command", ("zstd",), "node"),
    "viewer": Measure("the page in Chromium: first drawing, zooming, panning, jumps, memory", ("zstd", "npm"), "node", BOTH),
    "operators": Measure("the lanes of a trace of a million operators in the page", ("npm",), "node"),
    "ranks": Measure("the page of all ranks of a job", ("npm",), "node", BOTH),
    "fleet": Measure("jobs of up to 4,096 ranks: checks the answer and measures its time", ("zstd",), builds=BOTH),
    "recorder": Measure("recording of any program: an event, a training step, the start", ("cc",), builds=("vramscope-cli", "vramscope-python")),
    "profiler": Measure("the Rust profiler beside gpumemprof and stormlog, in the same run", builds=("vramscope-bench",)),
    "python_profiler": Measure("calls of the Python profiler beside gpumemprof and stormlog", ("torch",), "phantom"),
    "python_read": Measure("reading from Python beside the command"),
    "torch_record": Measure("a training step recorded by `vramscope.torch.record`, beside PyTorch's history", ("torch",), "phantom"),
    "long_recording": Measure("memory of a process that records ten million events", ("torch",), "phantom"),
    "torch_pool": Measure("`torch.empty` and `del` with the pool of `vramscope.torch`, beside PyTorch's allocator", ("torch",), "phantom"),
    "torch_plans": Measure("reserved bytes of PyTorch programs with PyTorch's settings and with plans", ("torch",), "python"),
    "cupy_hooks": Measure("the hooks of `vramscope.cupy` beside CuPy's", ("cupy",), "python", ("vramscope-python",)),
    "phantom": Measure("a process and a training step on a phantom GPU", ("torch",)),
    "fakegpu": Measure("phantom GPUs and FakeGPU on ten unchanged programs", ("torch",)),
}
# Environments that `./test` makes.
PYTHONS = {"torch": ROOT / "target/torch-2.11.0/bin/python", "cupy": ROOT / "target/cupy/bin/python"}
# Runs a program in isolated mode (-I), which is without the history that `phantom run` starts, but with PYTHONPATH.
ISOLATED = """
import os, runpy, sys
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main():
    """Runs the named benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False, allow_abbrev=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("name", nargs="?")
    # What follows the name is for the benchmark.
    known, options = parser.parse_known_args()
    if known.name not in MEASURES:
        if known.list:
            for name, measure in MEASURES.items():
                needs = f" (needs {', '.join(measure.needs)})" if measure.needs else ""
                print(f"{name:<17}{measure.what}{needs}")
        else:
            parser.print_help()
        return 0 if known.list else 2
    return run(known.name, MEASURES[known.name], known, options)


def run(name, measure, known, options):
    """Builds, and runs the benchmark; returns its exit code."""
    if "--help" in options:
        return print_help(name, measure)
    python = known.python or next((PYTHONS[need] for need in measure.needs if need in PYTHONS), None)
    missing = [need for need in measure.needs if need not in PYTHONS and shutil.which(need) is None]
    if python and shutil.which(python) is None:
        missing.append(f"a Python with PyTorch or CuPy: there is no {python}; name one with --python")
    if missing:
        sys.exit(f"{name} needs {', '.join(missing)}")
    builds = {*measure.builds, *(["vramscope-python"] if python else [])}
    if not known.no_build:
        packages = [word for package in sorted(builds) for word in ("-p", package)]
        subprocess.run(["cargo", "build", "--profile", "dist", "--quiet", *packages], cwd=ROOT, check=True)
    if "npm" in measure.needs and not (ROOT / "viewer/node_modules").is_dir():
        subprocess.run(["npm", "--prefix", "viewer", "ci", "--silent"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        path = [BENCH, WORKLOADS]
        if "vramscope-python" in builds:
            path += [package(pathlib.Path(folder)), ROOT / "python/tests"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        return subprocess.run([*command(name, measure.start, python), *options], env=environment).returncode


def print_help(name, measure):
    """Prints the options of a benchmark that this Python can run, and the text at the beginning of any other."""
    program = BENCH / name / "measure.py"
    if measure.start == "here":
        return subprocess.run([sys.executable, program, "--help"], env={**os.environ, "PYTHONPATH": str(BENCH)}).returncode
    if program.exists():
        print(program.read_text().split('"""')[1])
    else:
        lines = program.with_suffix(".mjs").read_text().splitlines()
        print(*(line[3:] for line in itertools.takewhile(lambda line: line.startswith("//"), lines)), sep="\n")
    return 0


def command(name, start, python):
    """The command that starts a benchmark."""
    program = BENCH / name / "measure.py"
    return {
        "here": [sys.executable, program, *(["--python", python] if python else [])],
        "node": ["node", program.with_suffix(".mjs")],
        "python": [python, program],
        "phantom": [COMMAND, "phantom", "run", "--once", "--", python, "-I", "-c", ISOLATED, program],
    }[start]


def package(folder):
    """A folder with the Python package and its optimized native part. The one in the checkout is for tests, and not optimized."""
    shutil.copytree(ROOT / "python/vramscope", folder / "vramscope", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (folder / "vramscope/_native.abi3.so").symlink_to(ROOT / "target/dist/lib_native.so")
    return folder


if __name__ == "__main__":
    sys.exit(main())
