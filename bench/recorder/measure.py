"""Measures what recording costs a program: an event, a training step, and the start.

    bench/run.py recorder [--runs N] [--python PYTHON]

An event is a call of PyTorch's report with Python and native stacks of several depths, without PyTorch. A step is one of GPT-2 on a phantom GPU,
where kernels take no time, so that the share of recording is the largest possible; PYTHON must have PyTorch, and without it this part is
left out. Prints medians of alternating runs. Run it on an idle machine.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

from turns import ROOT

HERE = pathlib.Path(__file__).parent
PROGRAMS = ROOT / "acceptance/workloads"
VRAMSCOPE = ROOT / "target/dist/vramscope"
# The folder with the Python package, from run.py.
PACKAGE = os.environ["PYTHONPATH"].split(os.pathsep)[2]


def output(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0]


def library(folder):
    """The library of event.c. It needs functions of a `libc10.so`, as PyTorch's has them."""
    empty = folder / "c10.c"
    empty.write_text("void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void) {}\n")
    cc = ["cc", "-O2", "-shared", "-fPIC"]
    subprocess.run([*cc, "-Wl,-soname,libc10.so", "-o", folder / "libc10.so", empty], check=True)
    out = folder / "libevent.so"
    subprocess.run([*cc, "-o", out, HERE / "event.c", f"-L{folder}", "-lc10", f"-Wl,-rpath,{folder}"], check=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--python", help="a Python with PyTorch")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        log = folder / "run.vramscope"
        recorded = [VRAMSCOPE, "run", "--record", log, "--"]
        event = [sys.executable, HERE / "event.py", library(folder)]
        for frames, stacks in (("native", "all"), ("python", "python")):
            all_recorded = [VRAMSCOPE, "run", "--record", log, "--stacks", stacks, "--"]
            costs = [json.loads(output([*all_recorded, *event, frames])) for _ in range(arguments.runs)]
            plain = [json.loads(output([*event, frames])) for _ in range(arguments.runs)]
            print(f"one event, below a number of {frames} frames")
            for depth in costs[0]:
                with_it, without = (statistics.median(cost[depth] for cost in of) for of in (costs, plain))
                print(f"  {depth:>4}  {with_it:7.0f} ns, {without:.0f} without recording")
        print(f"  {log.stat().st_size / 40_000:.1f} bytes of the log per event")

        starts = {"plain": [], "recorded": []}
        for _ in range(4 * arguments.runs):
            for name, prefix in (("plain", []), ("recorded", recorded)):
                start = time.perf_counter()
                subprocess.run([*prefix, sys.executable, "-c", ""], check=True, capture_output=True)
                starts[name].append(1000 * (time.perf_counter() - start))
        print("the start of a program")
        for name, times in starts.items():
            print(f"  {name:<10}{statistics.median(times):7.1f} ms")

        if arguments.python:
            phantom = [VRAMSCOPE, "phantom", "run", "--once", "--"]
            # -I: without the history that `phantom run` starts.
            step = [arguments.python, "-I", HERE / "step.py", PROGRAMS]
            print("the same step, recorded in turns in a process")
            turns = [arguments.python, "-I", HERE / "attached.py", PROGRAMS, PACKAGE]
            ratios = {"none": [], "python": [], "all": []}
            for _ in range(arguments.runs):
                for stacks, of in ratios.items():
                    of += json.loads(output([*phantom, *turns, stacks, "8"]))
            for stacks, of in ratios.items():
                wall, cpu = ([100 * (ratio - 1) for ratio in column] for column in zip(*of))
                low, middle, high = statistics.quantiles(wall, n=4)
                print(f"  {stacks:<24}{middle:+6.1f} % (half of them from {low:+.1f} to {high:+.1f} %), "
                      f"{statistics.median(cpu):+.1f} % processor time")

            ways = {
                "not recorded": [*phantom, *step, "none"],
                "recorder": [*phantom, *recorded, *step, "none"],
                "recorder, no stacks": [*phantom, *recorded[:-1], "--stacks", "none", "--", *step, "none"],
                "history, Python stacks": [*phantom, *step, "python"],
                "history, all stacks": [*phantom, *step, "all"],
            }
            steps = {name: [] for name in ways}
            for _ in range(arguments.runs):
                for name, command in ways.items():
                    steps[name].append(float(output(command)))
            print("a step of GPT-2 on a phantom GPU")
            base = statistics.median(steps["not recorded"])
            for name, times in steps.items():
                median = statistics.median(times)
                print(f"  {name:<24}{median:7.1f} ms  {100 * (median / base - 1):+6.1f} %")


if __name__ == "__main__":
    main()
