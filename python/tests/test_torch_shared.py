"""Programs that use PyTorch's history during a recording, and programs that turn warnings into errors."""

import pickle
from pathlib import Path

import pytest
from torch_on_phantom import TRAIN, events, needs_torch, python

pytestmark = needs_torch

# `vramscope phantom run` patches these functions to return less; `__wrapped__` is PyTorch's own.
OWN = """
import pickle, vramscope.torch
memory = torch.cuda.memory
memory._record_memory_history = getattr(memory._record_memory_history, "__wrapped__", memory._record_memory_history)
memory._record_memory_history(enabled=None)
memory._snapshot = getattr(memory._snapshot, "__wrapped__", memory._snapshot)
is_on = torch._C._cuda_isHistoryEnabled
"""


@pytest.mark.parametrize("asked", ["max_entries=20", "True, trace_alloc_max_entries=20", "'all', 'all', 'python'"])
def test_two_users_of_the_history_do_not_disturb_each_other(asked: str, tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + OWN
        + f"""
recording = vramscope.torch.record("run.pickle", model=model, optimizer=optimizer)
step()
memory._record_memory_history({asked})
step()
memory._dump_snapshot("own.pickle")
memory._record_memory_history(enabled=None)
step()
recording.stop()
print(is_on())
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "False"
    ours = [event["size"] for event in events(tmp_path / "run.pickle") if event["action"] == "alloc"]
    own = [event["size"] for event in events(tmp_path / "own.pickle") if event["action"] == "alloc"]
    assert own == ours[: len(own)]
    assert 20 < len(own) < len(ours)
    assert any("category=gradient" in event.get("user_metadata", "") for event in events(tmp_path / "run.pickle"))


def test_a_history_of_the_program_continues_after_a_recording(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + OWN
        + """
memory._record_memory_history()
step()
with vramscope.torch.record("run.pickle"):
    step()
print(is_on())
step()
memory._dump_snapshot("own.pickle")
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "True"
    assert len(events(tmp_path / "own.pickle")) > len(events(tmp_path / "run.pickle"))


def test_a_history_that_the_program_turns_off_is_reported(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        TRAIN
        + OWN
        + """
off = memory._record_memory_history
with vramscope.torch.record("run.pickle"):
    step()
    off(enabled=None)
""",
    )
    assert done.returncode == 0, done.stderr
    assert "vramscope: the program turned off PyTorch's history: the recorded events are lost" in done.stderr
    with (tmp_path / "run.pickle").open("rb") as file:
        assert pickle.load(file)["segments"]


def test_a_recording_causes_no_warning(tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
import gc, warnings
for _ in range(3):
    step()
warnings.simplefilter("error")
if "ours" in sys.argv:
    import vramscope.torch
    recording = vramscope.torch.record("run.pickle", model=model, optimizer=optimizer, every=0.2)
for _ in range(20):
    step()
try:
    torch.empty(100 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
if "ours" in sys.argv:
    recording.stop()
gc.collect()
"""
    )
    plain = python(tmp_path, program, PYTHONDEVMODE="1")
    ours = python(tmp_path, program, "ours", PYTHONDEVMODE="1")
    said = [line for line in ours.stderr.splitlines() if line not in plain.stderr.splitlines()]
    begin = next(number for number, line in enumerate(said) if line.startswith("Out of memory:"))
    end = next(number for number, line in enumerate(said) if line.startswith("vramscope: recorded to"))
    # Only the explanation is printed.
    assert said[:begin] + said[end + 1 :] == []
    assert end - begin < 15
