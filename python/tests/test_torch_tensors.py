"""What a recording says about live tensors: names, types, shapes and referrers, on a phantom GPU."""

import json
import pickle
import subprocess
from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, TRAIN, needs_torch, python

pytestmark = needs_torch

KEPT = """
import vramscope.torch

class Cache:
    entries = {}

history = []

def keep(x):
    history.append({"loss": x, "again": [x]})
    Cache.entries["large"] = torch.zeros(8 << 20, device="cuda")
    return lambda: x

def main():
    step()
    local = torch.zeros(5, 1 << 20, device="cuda", dtype=torch.float16)
    wrapped = keep(torch.zeros(4 << 20, device="cuda", dtype=torch.int16))
    recording.stop()
    del local, wrapped

"""


def tensors(folder: Path, name: str) -> list[dict]:
    """Returns the tensors with referrers in the report."""
    done = subprocess.run([COMMAND, "report", name, "--json"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["devices"][0].get("referred_tensors", [])


@pytest.mark.parametrize("name", ["run.pickle", "run.vramscope"])
def test_referrers_of_the_largest_tensors(name: str, tmp_path: Path) -> None:
    program = TRAIN + KEPT + f"recording = vramscope.torch.record('{name}', referrers=True)\nmain()\n"
    done = python(tmp_path, program)
    assert done.returncode == 0, done.stderr
    listed = tensors(tmp_path, name)
    found = {(tensor["dtype"], tensor["shape"]): tensor for tensor in listed}

    cached = found["float32", "(8388608,)"]
    assert cached["referrers"] == ["__main__.Cache.entries['large']"]
    assert (cached["bytes"], cached["free_event"], cached["name"]) == (32 << 20, None, None)
    [local] = found["float16", "(5, 1048576)"]["referrers"]
    assert local.startswith("main (program.py:")
    assert local.endswith(": local")
    kept = found["int16", "(4194304,)"]["referrers"]
    assert any(chain.endswith(": wrapped.__closure__[0].cell_contents") for chain in kept)
    assert "__main__.history[0]['loss']" in kept
    state = next(tensor for tensor in listed if tensor["name"] == "exp_avg of 0.weight")
    assert (state["dtype"], state["shape"]) == ("float32", "(512, 512)")
    assert state["referrers"] == ["__main__.optimizer.state[<Parameter>]['exp_avg']"]


def test_parameters_gradients_and_states_are_named_without_a_search(tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
import vramscope.torch
with vramscope.torch.record("run.pickle", model=model, optimizer=optimizer):
    step()
    model(torch.randn(64, 512, device="cuda")).sum().backward()
"""
    )
    done = python(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert tensors(tmp_path, "run.pickle") == []
    with (tmp_path / "run.pickle").open("rb") as file:
        snapshot = pickle.load(file)
    texts = [block.get("user_metadata", "") for segment in snapshot["segments"] for block in segment["blocks"]]
    described = {line for text in texts for line in text.split("\n") if line.startswith("vramscope-tensor:")}
    shapes = {"0.weight": "(512, 512)", "0.bias": "(512,)", "2.weight": "(10, 512)", "2.bias": "(10,)"}
    names = ["", "gradient of ", "exp_avg of ", "exp_avg_sq of "]
    assert described >= {
        f"vramscope-tensor:dtype=float32;shape={shape};name={name}{parameter}"
        for name in names
        for parameter, shape in shapes.items()
    }
    # The category is still read.
    assert any(text.startswith("vramscope:category=gradient;module=0") for text in texts)


@pytest.mark.parametrize("name", ["run.pickle", "run.vramscope"])
def test_an_out_of_memory_names_the_variables_of_its_frames(name: str, tmp_path: Path) -> None:
    program = (
        TRAIN
        + f"""
import vramscope.torch
recording = vramscope.torch.record("{name}", referrers=True)
def grow():
    mine = torch.zeros(1 << 30, device="cuda", dtype=torch.uint8)
    return torch.zeros(1 << 40, device="cuda", dtype=torch.uint8)
for _ in range(3):
    try:
        grow()
    except torch.cuda.OutOfMemoryError:
        pass
recording.stop()
"""
    )
    done = python(tmp_path, program)
    # The phantom run itself ends with 1 after an out of memory.
    assert (tmp_path / name).is_file(), done.stderr
    large = next(tensor for tensor in tensors(tmp_path, name) if tensor["shape"] == "(1073741824,)")
    # It was freed when the exception left the function.
    assert large["free_event"] is not None
    [chain] = large["referrers"]
    assert chain.startswith("grow (program.py:")
    assert chain.endswith(": mine")


def test_tensors_of_other_types_and_code_of_the_program_are_left_alone(tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
import vramscope.torch
class Hostile(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *arguments, **named):
        raise AssertionError
    @property
    def shape(self):
        raise AssertionError
    def __repr__(self):
        raise AssertionError
class Model(torch.nn.Module):
    def __getattr__(self, name):
        raise AssertionError(name)
class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        wrapped = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        wrapped.inner = inner
        return wrapped
    @classmethod
    def __torch_dispatch__(cls, *arguments, **named):
        raise AssertionError
recording = vramscope.torch.record("run.pickle", referrers=True)
hostile = torch.zeros(3 << 20, device="cuda").as_subclass(Hostile)
wrapper = Wrapper(torch.zeros(5 << 20, device="cuda"))
sparse = torch.eye(4, device="cuda").to_sparse()
host = torch.zeros(4)
meta = torch.zeros(4, device="meta")
stranger = Model()
from torch._subclasses import FakeTensorMode
with FakeTensorMode():
    fake = torch.zeros(7 << 20, device="cuda")
recording.stop()
"""
    )
    done = python(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert "not described" not in done.stderr
    found = {tensor["shape"]: tensor["referrers"] for tensor in tensors(tmp_path, "run.pickle")}
    assert found["(3145728,)"] == ["__main__.hostile"]
    assert found["(5242880,)"] == ["__main__.wrapper.inner"]
    assert "(7340032,)" not in found


def test_a_recording_keeps_no_tensor_alive(tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
import gc, weakref, vramscope.torch
recording = vramscope.torch.record("run.pickle", model=model, optimizer=optimizer, referrers=True)
def work():
    mine = torch.zeros(1 << 20, device="cuda")
    gone = weakref.ref(mine)
    recording.write()
    del mine
    assert gone() is None
work()
gone = [weakref.ref(each) for each in (model, optimizer, model[0].weight)]
del model, optimizer
recording.write()
gc.collect()
assert [each() for each in gone] == [None] * 3
recording.stop()
"""
    )
    done = python(tmp_path, program)
    assert done.returncode == 0, done.stderr


def test_options_of_logs(tmp_path: Path) -> None:
    begin = "import vramscope.torch\nvramscope.torch.record('a.vramscope', referrers=True, categories=False)\n"
    program = TRAIN + begin
    done = python(tmp_path, program)
    assert "VramscopeError: referrers needs categories" in done.stderr
