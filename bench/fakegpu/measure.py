"""Compares the phantom GPU with FakeGPU (https://github.com/FanBB2333/FakeGPU): both run ten unchanged programs.

    bench/run.py fakegpu [--python PYTHON] [--fakegpu PYTHON] [--truth TRUTH] [--only NAME] [--vramscope COMMAND]

PYTHON has PyTorch, transformers and peft. --fakegpu names another Python that has those and FakeGPU. FakeGPU is used as its author
documents: `fakegpu preflight --runtime fakecuda`, whose report contains the peaks. On the phantom GPU the peaks are PyTorch's own
counters, `torch.cuda.max_memory_allocated` and `max_memory_reserved`. TRUTH contains PyTorch's counters from the recordings of
these programs. Programs run as they did for the recordings: backward passes on the calling thread, without cuBLASLt.

Prints a line per program: both peaks of each tool in bytes, the difference of FakeGPU's peaks from PyTorch's own numbers, and the
seconds of the whole command: wall time and processor time.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile, time

from turns import ROOT

PROGRAMS = ROOT / "acceptance/workloads"
# Programs, with their number of iterations.
NAMES = {"mlp": 3, "resnet50": 2, "gpt2": 4, "churn": 2, "leak": 3, "streams": 4, "two_gpus": 4, "mempool": 3,
         "generate": 2, "lora": 3}
GPUS = {"two_gpus": 2}
SECONDS = 900
# Imports an unchanged program and calls it.
RUN = """
import importlib, json, sys, torch
sys.path.insert(0, sys.argv[1])
torch.autograd.set_multithreading_enabled(False)
module = importlib.import_module(sys.argv[2])
kept = getattr(module, sys.argv[2])(int(sys.argv[3]))
print(json.dumps([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--fakegpu", metavar="PYTHON")
    parser.add_argument("--truth", type=pathlib.Path, default=ROOT / "../shared/data/phantom/truth.jsonl")
    parser.add_argument("--only", default="")
    parser.add_argument("--vramscope", default=ROOT / "target/dist/vramscope", help="another build of the command")
    arguments = parser.parse_args()
    recorded = truth(arguments)

    print(f"{'program':<9} {'recorded':>23} {'phantom GPU':>23} {'s':>9} {'FakeGPU':>23} {'s':>9}  FakeGPU's differ by")
    for name, iterations in NAMES.items():
        if arguments.only not in name:
            continue
        program = [RUN, PROGRAMS, name, str(iterations)]
        ours, our_seconds = timed(phantom, arguments, name, program)
        theirs, their_seconds = timed(fakegpu, arguments, name, program)
        by = differences(ours, theirs) if isinstance(ours, list) and isinstance(theirs, list) else ""
        was = recorded.get(name)
        same = "" if was is None else " = recorded" if was == ours else " NOT recorded"
        print(f"{name:<9} {shown(was):>23} {shown(ours):>23} {our_seconds:>9} {shown(theirs):>23} {their_seconds:>9}  {by}{same}",
              flush=True)


def truth(arguments):
    """PyTorch's counters of each program, from the recordings under default settings."""
    if not arguments.truth.exists():
        return {}
    command = [arguments.python, "-c", "import torch; print(torch.__version__)"]
    release = ".".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(".")[:2])
    rows = [json.loads(line) for line in arguments.truth.read_text().splitlines()]
    return {row["name"]: [row["peak_allocated"], row["peak_reserved"]] for row in rows
            if row["file"] == f"{row['name']}-torch{release}-default.pickle"}


def timed(run, *arguments):
    begun, worked = time.perf_counter(), processor_seconds()
    try:
        result = run(*arguments)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        result = str(error) if isinstance(error, RuntimeError) else f"still runs after {SECONDS} s"
    return result, f"{time.perf_counter() - begun:.0f} / {processor_seconds() - worked:.0f}"


def processor_seconds():
    """Processor seconds of all commands that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def run(command):
    environment = {**os.environ, "DISABLE_ADDMM_CUDA_LT": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)


def phantom(arguments, name, program):
    done = run([arguments.vramscope, "phantom", "run", "--once", "--gpus", str(GPUS.get(name, 1)), "--", arguments.python, "-c",
                *program])
    if done.returncode:
        raise RuntimeError(last_line(done.stderr))
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[")))


def fakegpu(arguments, name, program):
    with tempfile.TemporaryDirectory() as folder:
        python = arguments.fakegpu or arguments.python
        file = pathlib.Path(folder, "program.py")
        file.write_text(RUN)
        done = run([python, "-m", "fakegpu", "preflight", "--runtime", "fakecuda", "--profile", "h100", "--device-count",
                    str(GPUS.get(name, 1)), "--report-dir", folder, "--", python, file, *program[1:]])
        report = pathlib.Path(folder, "preflight_report.json")
        if not report.exists():
            raise RuntimeError(last_line(done.stderr))
        report = json.loads(report.read_text())
        if report["exit_code"]:
            errors = report["errors"]
            why = f"{errors[0]['type']}: {errors[0]['message']}" if errors else report["status"]
            raise RuntimeError(why.splitlines()[0])
        return [report["devices"][0]["allocated_peak_memory"], report["devices"][0]["peak_reserved_memory"]]


def last_line(text):
    return (text.strip() or "no message").splitlines()[-1]


def differences(own, other):
    return ", ".join(f"{100 * (there - here) / here:+.2f} %" for here, there in zip(own, other))


def shown(peaks):
    if isinstance(peaks, list):
        return f"{peaks[0]:,} {peaks[1]:,}"
    return peaks or ""


if __name__ == "__main__":
    sys.exit(main())
