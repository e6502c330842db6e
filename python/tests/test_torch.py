"""vramscope.torch with real PyTorch on a phantom GPU; `./test --torch` provides the Python and the command."""

import os
import pickle
import signal
import subprocess
from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, HERE, PYTHON, TRAIN, events, needs_torch, on_gpu, python

pytestmark = needs_torch


def test_a_with_block_records_what_is_in_it(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import vramscope.torch
step()
with vramscope.torch.record("run.pickle", model=model, optimizer=optimizer):
    step()
step()
""",
    )
    assert done.returncode == 0, done.stderr
    assert f"vramscope: recorded to {tmp_path}/run.pickle" in done.stderr
    texts = [event.get("user_metadata") for event in events(tmp_path / "run.pickle") if event["action"] == "alloc"]
    assert "vramscope:category=activation;module=1;phase=forward" in texts
    assert sum(text.startswith("vramscope:category=gradient;module=2;") for text in texts) == 2
    with (tmp_path / "run.pickle").open("rb") as file:
        segments = pickle.load(file)["segments"]
    blocks = [block for segment in segments for block in segment["blocks"]]
    # The tensor follows in another line.
    held = [(block.get("user_metadata") or "").partition("\n")[0] for block in blocks]
    # Tensors from before the recording have categories too.
    assert held.count("vramscope:category=optimizer_state;module=0") == 4
    assert held.count("vramscope:category=parameter;module=2") == 2


LINES = """
import torch, vramscope.torch
def inner():
    return torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
before = torch.empty(9 << 20, dtype=torch.uint8, device="cuda")
hook = vramscope.torch.LineProfileHook()
with hook:
    a = torch.empty(1000, dtype=torch.uint8, device="cuda")
    b = inner()
    del b
    b = inner()
after = inner()
hook.print_report()
"""


@pytest.mark.parametrize(
    "command", [["phantom", "run", "--once", "--"], ["phantom", "run", "--once", "--", "run", "--"]]
)
def test_lines_of_a_block_are_counted_as_cupys_hook_does(command: list, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LINES)
    if command[-2] == "run":
        command = [*command[:-2], COMMAND, *command[-2:]]
    done = subprocess.run(
        [COMMAND, *command, PYTHON, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # The phantom GPU's own output follows.
    lines = [line.replace(f"{tmp_path}/", "") for line in done.stdout.splitlines()[:6]]
    # Before the block, 9 MiB took a 20 MiB segment from the device, which also serves the 3 MiB.
    assert lines == [
        "_root (6.00MB, 2.00MB)",
        "  program.py:8:<module> (1000.00B, 2.00MB)",
        "  program.py:9:<module> (3.00MB, 0.00B)",
        "    program.py:4:inner (3.00MB, 0.00B)",
        "  program.py:11:<module> (3.00MB, 0.00B)",
        "    program.py:4:inner (3.00MB, 0.00B)",
    ]


def test_out_of_memory_is_explained_and_raised_as_it_is(tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
import vramscope.torch
if "ours" in sys.argv:
    vramscope.torch.record("run.pickle")
kept = []
try:
    while True:
        step()
        kept.append(torch.empty(9 << 30, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    print(error)
    raise
"""
    )
    plain, ours = python(tmp_path, program), python(tmp_path, program, "ours")
    assert ours.returncode == plain.returncode
    assert ours.stdout.splitlines()[0] == plain.stdout.splitlines()[0]
    assert ours.stdout.splitlines()[0].startswith("CUDA out of memory. Tried to allocate 9.00 GiB")
    said = ours.stderr[ours.stderr.index("Out of memory:") :].splitlines()
    end = next(number for number, line in enumerate(said) if line.startswith("vramscope: recorded to"))
    assert end < 15
    assert said[0].startswith("Out of memory: a request of 9.00 GiB failed")
    assert "requested in program.py" in said[1]
    assert any("parameter" in line or "temporary" in line for line in said[2:end])


def test_a_save_in_place_is_refused_as_without_a_recording(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import vramscope.torch
def try_it():
    x = torch.ones(3, device="cuda", requires_grad=True) * 1
    y = x * x
    x.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error)
plain = try_it()
with vramscope.torch.record("run.pickle"):
    ours = try_it()
print("modified by an inplace operation" in plain, "modified by an inplace operation" in ours)
""",
    )
    assert done.stdout.splitlines()[0] == "True True", done.stdout + done.stderr


def test_autograd_graphs_without_a_backward_pass_are_freed(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import gc, vramscope.torch
gc.disable()
with vramscope.torch.record("run.pickle"):
    x = torch.ones(1 << 20, device="cuda", requires_grad=True)
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        x.exp().tanh()
    print(torch.cuda.memory_allocated() - before)
""",
    )
    assert done.stdout.splitlines()[0] == "0", done.stdout + done.stderr


def test_errors_are_of_our_own_class(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import vramscope, vramscope.torch
def refused(*arguments, **options):
    try:
        vramscope.torch.record(*arguments, **options)
    except vramscope.VramscopeError as error:
        print(error)
refused("no/such/folder/run.pickle")
refused("run.pickle", max_entries=0)
refused("run.pickle", stacks="c")
refused("run.json")
refused("run.pickle.gz")
refused("run.pickle", every=float("nan"))
refused("run.pickle", every=float("inf"))
for wrong in ({"model": 3}, {"model": [model, "m"]}, {"optimizer": model}, {"max_entries": 2.5}, {"every": "1"}):
    try:
        vramscope.torch.record("run.pickle", **wrong)
    except TypeError as error:
        print(error)
with vramscope.torch.record("one.pickle"):
    refused("two.pickle")
    step()
with vramscope.torch.record("two.pickle"):
    step()
""",
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == f"cannot write run.pickle: there is no folder {tmp_path}/no/such/folder"
    assert said[1] == "max_entries must be >= 1"
    assert said[2].startswith("stacks must be")
    assert said[3] == (
        "run.json: a recording is a pickle: end its name in .pickle or .pkl; `vramscope export` writes other formats"
    )
    assert said[4].startswith("run.pickle.gz: a recording is a pickle")
    assert said[5] == "every must be > 0"
    assert said[6].startswith("every must be <= ")
    assert said[7:12] == [
        "model must be a torch.nn.Module or a list of them, not int",
        "model must be a torch.nn.Module or a list of them; the list has a str",
        "optimizer must be a torch.optim.Optimizer or a list of them; the list has a Linear",
        "max_entries is a whole number, not float",
        "every is a number, not str",
    ]
    assert said[12] == f"a recording to {tmp_path}/one.pickle is under way: stop it before another begins"
    assert events(tmp_path / "one.pickle")
    assert events(tmp_path / "two.pickle")


def test_record_without_a_gpu_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import vramscope, vramscope.torch
try:
    vramscope.torch.record("run.pickle")
except vramscope.VramscopeError as error:
    print(error)
""")
    done = subprocess.run(
        [PYTHON, "program.py"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE.parent), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.stdout == "PyTorch sees no GPU here: there is no memory to record\n", done.stderr


@pytest.mark.parametrize("how", ["error", "interrupt", "exit", "hook"])
def test_every_end_of_a_program_leaves_a_recording(how: str, tmp_path: Path) -> None:
    endings = {
        "error": "raise ValueError('of the program')",
        "interrupt": "raise KeyboardInterrupt",
        "exit": "sys.exit(3)",
        "hook": "model[0].register_forward_hook(lambda *_: 1 / 0); step()",
    }
    done = python(
        tmp_path,
        TRAIN
        + f"""
import vramscope.torch
vramscope.torch.record("run.pickle")
step()
{endings[how]}
""",
        PYTHONDEVMODE="1",
    )
    assert events(tmp_path / "run.pickle")
    words = {
        "error": "ValueError: of the program",
        "interrupt": "KeyboardInterrupt",
        "exit": "",
        "hook": "ZeroDivisionError",
    }
    assert words[how] in done.stderr
    assert "Exception ignored" not in done.stderr


def test_forked_data_loaders_leave_the_recording_unchanged(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import os, vramscope.torch
from torch.utils.data import DataLoader
with vramscope.torch.record("run.pickle"):
    step()
    for batch in DataLoader(range(8), num_workers=2):
        pass
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print(os.path.exists("run.pickle"))
""",
    )
    assert done.stdout.splitlines()[0] == "False", done.stdout + done.stderr
    assert events(tmp_path / "run.pickle")


def test_threads_have_their_own_modules(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + """
import threading, vramscope.torch
with vramscope.torch.record("run.pickle", model=model, optimizer=optimizer):
    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
""",
    )
    assert done.returncode == 0, done.stderr
    texts = {event.get("user_metadata") for event in events(tmp_path / "run.pickle") if event["action"] == "alloc"}
    assert "vramscope:category=temporary;module=0;phase=forward" in texts | {
        (text or "").replace("activation", "temporary") for text in texts
    }


def test_run_records_a_script_that_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "step(); step(); sys.exit(7)")
    done = on_gpu(tmp_path, COMMAND, "run", "--record", "run.pickle", "--", PYTHON, "train.py")
    assert "exit code 7" in done.stderr, done.stderr
    assert any(
        "category=gradient;module=0" in event.get("user_metadata", "") for event in events(tmp_path / "run.pickle")
    )


def test_run_writes_the_recording_at_sigterm(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        TRAIN + "import os, signal; step(); os.kill(os.getpid(), signal.SIGTERM); step()"
    )
    done = on_gpu(tmp_path, COMMAND, "run", "--record", "run.pickle", "--", PYTHON, "train.py")
    assert events(tmp_path / "run.pickle"), done.stderr


def test_run_writes_under_an_unpredictable_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    # The link has the temporary name that recordings once used, which was predictable.
    (tmp_path / "train.py").write_text(
        f"import os; os.symlink({str(victim)!r}, f'.run.pickle.{{os.getpid()}}.part')" + TRAIN + "step()"
    )
    done = on_gpu(tmp_path, COMMAND, "run", "--record", "run.pickle", "--", PYTHON, "train.py")
    assert events(tmp_path / "run.pickle"), done.stderr
    assert victim.read_text() == "mine"


def test_run_replaces_no_pipe_and_no_device(tmp_path: Path) -> None:
    pipe, whole = tmp_path / "pipe", tmp_path / "whole.pickle"
    os.mkfifo(pipe)
    (tmp_path / "train.py").write_text(TRAIN + "step()")
    with whole.open("wb") as out:
        reader = subprocess.Popen(["cat", pipe], stdout=out)
        done = on_gpu(tmp_path, COMMAND, "run", "--record", "pipe", "--", PYTHON, "train.py")
        assert reader.wait(60) == 0
    assert pipe.is_fifo(), done.stderr
    assert events(whole)
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    on_gpu(tmp_path, COMMAND, "run", "--record", "null", "--", PYTHON, "train.py")
    assert null.is_symlink()


def test_run_names_the_rank(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "step()")
    done = on_gpu(
        tmp_path, COMMAND, "run", "--record", "run.pickle", "--", PYTHON, "train.py", RANK="3", WORLD_SIZE="8"
    )
    assert events(tmp_path / "run-rank3.pickle"), done.stderr


def test_a_killed_program_leaves_its_last_recording(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        TRAIN
        + f"""
import os, time
step()
while not os.path.exists("run.pickle"):
    step()
    time.sleep(0.01)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    )
    done = on_gpu(tmp_path, COMMAND, "run", "--every", "0.2", "--record", "run.pickle", "--", PYTHON, "train.py")
    assert events(tmp_path / "run.pickle"), done.stderr
