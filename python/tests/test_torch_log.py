"""`vramscope.torch.record` with a log, on a phantom GPU; `./test --torch` provides the Python and the command."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, HERE, PYTHON, TRAIN, needs_torch, on_gpu, python

pytestmark = needs_torch

MODELS = HERE.parents[1] / "acceptance/workloads"


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
    """Returns all numbers in an answer but changes, which may be negative."""
    if isinstance(value, dict):
        return [number for key, each in value.items() if key != "kept_bytes" for number in numbers(each)]
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
    while sum(device["events"] for device in report(tmp_path, "run.vramscope")["devices"]) < 30:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_log_has_the_operators_of_its_run(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import vramscope.torch
step()
with vramscope.torch.record("run.vramscope", operators=True):
    step()
try:
    with torch.profiler.profile():
        vramscope.torch.record("other.vramscope", operators=True)
except vramscope.VramscopeError as error:
    print(error)
vramscope.torch.record("open.vramscope", operators=True)
step()
""",
    )
    assert done.returncode == 0, done.stderr
    why = "the operators cannot be recorded: the program runs a profile itself"
    assert done.stdout.splitlines()[0] == why, done.stdout
    for name in ("run", "open"):
        facts = subprocess.run([COMMAND, "info", f"{name}.vramscope"], cwd=tmp_path, capture_output=True, text=True)
        assert "operators" in facts.stdout
        command = [COMMAND, "view", "--html", "page.html", f"{name}.vramscope"]
        shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert f"{name}.vramscope: aligned by the clock" in shown.stderr.lower(), shown.stderr


def test_options_of_pickles_are_refused(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
import torch, vramscope, vramscope.torch
options = [{"every": 5}, {"max_entries": 5}, {"stacks": "some"}]
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
    assert done.stdout.splitlines()[:5] == [
        "every is for pickles: a log is written while the program runs",
        "max_entries is for pickles: a log has all events",
        'stacks must be "none", "python", "all" or "large:SIZE", not \'some\'',
        "this process cannot be recorded: it is recorded already",
        f"cannot write run.vramscope: there is no folder {tmp_path}/nowhere",
    ], done.stderr


def test_only_large_requests_have_stacks(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
import torch, vramscope.torch
def small():
    return torch.empty(1 << 10, dtype=torch.uint8, device="cuda")
def large():
    return torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
with vramscope.torch.record("run.vramscope", stacks="large:1MiB") as recording:
    kept = [small(), large()]
""",
    )
    assert done.returncode == 0, done.stderr
    found = report(tmp_path, "run.vramscope")["devices"][0]
    assert found["quality"]["stacks_from_bytes"] == 1 << 20
    holders = {holder["bytes"]: holder for holder in found["holders_at_peak"]}
    assert [frame["name"] for frame in holders[5 << 20]["stack"]][:1] == ["large"]
    assert not holders[1 << 10]["stack"]


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


NAMED = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    with torch.profiler.record_function("forward of mine"):
        loss = model(torch.randn(64, 512, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_categories_of_a_whole_program_are_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NAMED)
    record = [COMMAND, "run", "--record", "run.vramscope", "--categories", "--", PYTHON, "train.py"]
    done = on_gpu(tmp_path, *record)
    assert done.returncode == 0, done.stderr
    (device,) = report(tmp_path, "run.vramscope")["devices"]
    sizes = {one["category"]: one["bytes"] for one in device["categories_at_peak"]}
    # Blocks are rounded to 512 bytes: two weights and two biases, and Adam's two moments of each.
    parameters = 512 * 512 * 4 + 512 * 4 + 10 * 512 * 4 + 512
    assert sizes["parameter"] == parameters
    assert sizes["optimizer_state"] == 2 * parameters
    told = {one["category"] for one in device["category_reasons"] if one["evidence"] == "said"}
    assert {"parameter", "optimizer_state"} <= told
    assert "forward of mine" in {region["name"] for region in device["regions"]}
    modules = subprocess.run(
        [COMMAND, "report", "run.vramscope", "--by", "layer"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "2.weight" not in modules.stdout
    assert " 2 " in modules.stdout.replace("\n", " "), modules.stdout
    # The package's own frames are not in stacks.
    assert "watched_call" not in json.dumps(device)


def test_a_log_without_categories_costs_nothing_and_has_none(tmp_path: Path) -> None:
    done = python(tmp_path, f"import vramscope.torch\nwith vramscope.torch.record('run.vramscope'):\n{indented(NAMED)}")
    assert done.returncode == 0, done.stderr
    (device,) = report(tmp_path, "run.vramscope")["devices"]
    assert "said" not in {one["evidence"] for one in device["category_reasons"]}
    assert device["regions"] == []


def indented(program: str) -> str:
    """Returns a program one level deeper."""
    return "".join(f"    {line}\n" for line in program.splitlines())


def test_categories_are_those_of_the_part_that_is_recorded(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import vramscope.torch
call = nn.Module.__call__
enter = torch.autograd.profiler.record_function.__enter__
step()
for name in ("first", "second"):
    with vramscope.torch.record(f"{name}.vramscope", model=model, optimizer=optimizer):
        step()
assert nn.Module.__call__ is call
assert torch.autograd.profiler.record_function.__enter__ is enter
step()
""",
    )
    assert done.returncode == 0, done.stderr
    for name in ("first", "second"):
        (device,) = report(tmp_path, f"{name}.vramscope")["devices"]
        told = {one["category"] for one in device["category_reasons"] if one["evidence"] == "said"}
        # Parameters and the state of the optimizer are from before the recording.
        assert "gradient" in told


def test_the_log_of_a_running_program_is_dumped(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        f"""
import os, subprocess, torch, vramscope.torch
with vramscope.torch.record("run.vramscope"):
    kept = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    dump = [{COMMAND!r}, "dump", str(os.getpid()), "--json"]
    print(subprocess.run(dump, check=True, capture_output=True, text=True).stdout, flush=True)
    del kept
""",
    )
    assert done.returncode == 0, done.stderr
    (copy,) = json.loads(done.stdout[: done.stdout.rindex("}") + 1].split("\n\n")[0])["copies"]
    assert copy["path"] == str(tmp_path / "run-at-dump.vramscope")
    assert copy["report"]["devices"][0]["at"]["allocated_bytes"] == 3 << 20
    assert report(tmp_path, "run-at-dump.vramscope")["devices"][0]["end_allocated_bytes"] == 3 << 20
    assert report(tmp_path, "run.vramscope")["devices"][0]["end_allocated_bytes"] == 0
