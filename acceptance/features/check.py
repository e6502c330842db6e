"""Features of PyTorch that programs use work on a phantom GPU.

Each case asserts facts that hold without computed values. The phantom has to know every function of NVIDIA's libraries that the cases call.
"""

import json
import pathlib
import tempfile

PROGRAM = pathlib.Path(__file__).with_name("program.py")
EARLY = pathlib.Path(__file__).with_name("early.py")
NEEDS = ()
MINUTES = 1.3
IN_TEST = "every release"


def check(run):
    """Runs the cases, those of computed values, and those that run out of memory on purpose."""
    done = run.phantom(PROGRAM, options=["--json"])
    # With --json, the program's output is on stderr.
    yield from results(run, done.stderr)
    calls = [call["name"] for call in json.loads(done.stdout)["unanswered"] if call["kind"] == "unknown"]
    yield "the phantom knows all functions", [f"{name} is unknown" for name in calls]
    yield from results(run, run.phantom(PROGRAM, "values", options=["--values", "random=1"]).stdout)
    # A program that runs out of memory does not fit.
    yield from results(run, run.phantom(PROGRAM, "limits", codes=(1,)).stdout)
    yield early(run)


def early(run):
    """A recording has the allocations before `torch.cuda` is initialized."""
    with tempfile.TemporaryDirectory() as folder:
        recording = pathlib.Path(folder, "run.pickle")
        run.phantom(EARLY, options=["--record", recording])
        holders = run.device(recording)["holders_at_peak"]
    wrong = [f"{holder['bytes']} bytes are older than the recording" for holder in holders if holder["preexisting"]]
    return "allocations before torch.cuda is initialized", wrong if holders else ["nothing was recorded"]


def results(run, output):
    """A row for each case, and one for their number: a case that ends the process prints no line."""
    cases, ended = [], []
    for line in output.splitlines():
        word, _, name = line.partition(" ")
        if word in ("ok", "FAILED", "skipped"):
            cases.append((name, word))
        elif line.endswith(" cases ran"):
            ended.append(line)
    for name, word in cases:
        if run.is_chosen(name):
            yield f"{name}{' (skipped)' if word == 'skipped' else ''}", [output[-3000:]] if word == "FAILED" else []
    yield f"{len(cases)} cases", [] if ended == [f"{len(cases)} cases ran"] else [output[-3000:]]
