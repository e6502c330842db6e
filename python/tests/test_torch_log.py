"""`vramscope.torch.record` with a log, on a phantom GPU; `./test --torch` provides the Python and the command."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, HERE, TRAIN, needs_torch, python

pytestmark = needs_torch

MODELS = HERE.parent.parent / "crates" / "vramscope-phantom" / "programs"


def report(folder: Path, name: str) -> dict:
    """Returns the report of a recording."""
    done = subprocess.run([COMMAND, "report", name, "--json"], cwd=folder, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_a_with_block_records_what_is_in_it(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import vramscope.torch
step()
def recorded():
    return torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
for name in ("first", "second"):
    with vramscope.torch.record(f"{name}.vramscope") as recording:
        a = recorded()
        step()
        del a
step()
""",
    )
    assert done.returncode == 0, done.stderr
    for name in ("first", "second"):
        assert f"vramscope: recorded to {tmp_path}/{name}.vramscope" in done.stderr
        found = report(tmp_path, f"{name}.vramscope")
        assert found["devices"][0]["events"] > 20
        # Frees of unknown memory make no negative numbers.
        assert "-" not in "".join(str(number) for number in numbers(found["devices"][0]))


def numbers(value: object) -> list:
    """Returns all numbers in an answer."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [value] if isinstance(value, (int, float)) else []


def test_nothing_is_lost_when_the_program_is_killed(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
import os, signal, torch, vramscope.torch
torch.empty(1, device="cuda")
vramscope.torch.record("run.vramscope")
kept = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(30)]
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    assert "ended by signal 9" in done.stderr
    # The writer ends a moment after the program.
    deadline = time.monotonic() + 60
    while report(tmp_path, "run.vramscope")["devices"][0]["events"] < 30:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_options_of_pickles_are_refused(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
import torch, vramscope, vramscope.torch
options = [{"every": 5}, {"max_entries": 5}, {"model": torch.nn.Linear(2, 2)}, {"stacks": "some"}]
for option in options:
    try:
        vramscope.torch.record("run.vramscope", **option)
    except vramscope.VramscopeError as error:
        print(error)
with vramscope.torch.record("run.vramscope"):
    try:
        vramscope.torch.record("other.vramscope")
    except vramscope.VramscopeError as error:
        print(error)
try:
    vramscope.torch.record("nowhere/run.vramscope")
except vramscope.VramscopeError as error:
    print(error)
""",
    )
    # The verdict on the phantom GPU follows.
    assert done.stdout.splitlines()[:6] == [
        "every is for pickles: a log is written while the program runs",
        "max_entries is for pickles: a log has all events",
        "model is for pickles: a log has no categories",
        'stacks must be "none", "python" or "all", not \'some\'',
        "this process cannot be recorded: it is recorded already",
        f"cannot write run.vramscope: there is no folder {tmp_path}/nowhere",
    ], done.stderr


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_recording_many_times_changes_no_counter(stacks: str, tmp_path: Path) -> None:
    times = int(os.environ.get("VRAMSCOPE_ATTACHES", "3"))
    program = f"""
import json, os, sys, torch, vramscope.torch
sys.path.insert(0, {str(MODELS)!r})
import measure, mlp
for i in range({times}):
    recording = vramscope.torch.record(f"{{i}}.vramscope", stacks={stacks!r}) if "record" in sys.argv else None
    mlp.mlp(2)
    if recording is not None:
        recording.stop()
    mlp.mlp(1)
counted = torch.cuda.memory_stats(0)
print(json.dumps({{name: counted[key] for name, key in measure.COUNTERS.items()}}))
"""
    plain, recorded = python(tmp_path, program), python(tmp_path, program, "record")
    assert recorded.returncode == 0, recorded.stderr
    plain_counters, counters = (json.loads(done.stdout.splitlines()[0]) for done in (plain, recorded))
    assert counters == plain_counters
    assert counters["allocations"] > 100
    events = [report(tmp_path, f"{i}.vramscope")["devices"][0]["events"] for i in range(times)]
    # The first run initializes libraries.
    assert len(set(events[1:])) == 1, events
