"""Recordings preserve a program's exceptions, even those that free memory while they unwind in a backward pass.

Activation checkpointing raises one in every step, to stop recomputation early. On a Python before 3.13, PyTorch 2.11
loses it if the stack of a free is captured.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, PYTHON, can_import, events, needs_torch, on_gpu, python

CHECKPOINTED = """
import sys, torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layers = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64)).cuda()

def step():
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    checkpoint(layers, x, use_reentrant=False).sum().backward()
"""

TRANSFORMERS = """
import sys, torch, vramscope.torch
import transformers
from transformers import {name}Config
model_type, sizes = {model!r}, {sizes!r}
model = getattr(transformers, model_type)({name}Config(**sizes)).cuda().train()
model.gradient_checkpointing_enable({{"use_reentrant": False}})
words = torch.zeros(2, 16, dtype=torch.long, device="cuda")
with vramscope.torch.record("run.pickle", model=model):
    for _ in range(2):
        model(input_ids=words, labels=words).loss.backward()
"""


@needs_torch
def test_record_keeps_the_early_end_of_a_checkpoint(tmp_path: Path) -> None:
    program = """
import vramscope.torch
with vramscope.torch.record("run.pickle", model=layers):
    step()
    step()
"""
    done = python(tmp_path, CHECKPOINTED + program)
    assert done.returncode == 0, done.stderr
    assert events(tmp_path / "run.pickle")


@needs_torch
def test_run_keeps_the_early_end_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CHECKPOINTED + "step(); step()")
    done = on_gpu(tmp_path, COMMAND, "run", "--record", "run.pickle", "--", PYTHON, "train.py")
    assert done.returncode == 0, done.stderr
    assert events(tmp_path / "run.pickle")


@needs_torch
def test_a_phantom_run_keeps_the_early_end_of_a_checkpoint(tmp_path: Path) -> None:
    done = python(tmp_path, CHECKPOINTED + "step(); step()")
    assert done.returncode == 0, done.stderr


@needs_torch
@pytest.mark.parametrize("how", ["record", "run", "phantom"])
def test_a_history_of_the_program_keeps_the_early_end_of_a_checkpoint(how: str, tmp_path: Path) -> None:
    """Tests a history that the program shares with a recording."""
    own = CHECKPOINTED + "torch.cuda.memory._record_memory_history()\n"
    if how == "record":
        own += "import vramscope.torch; vramscope.torch.record('run.pickle')\n"
    own += "torch.cuda.memory._record_memory_history(max_entries=1000, context='all')\nstep(); step()\n"
    own += "torch.cuda.memory._dump_snapshot('own.pickle')\n"
    (tmp_path / "train.py").write_text(own)
    ours = (COMMAND, "run", "--record", "run.pickle", "--") if how == "run" else ()
    done = on_gpu(tmp_path, *ours, PYTHON, "train.py")
    assert done.returncode == 0, done.stderr
    assert any(event["action"] == "alloc" and event["frames"] for event in events(tmp_path / "own.pickle"))


@needs_torch
def test_a_history_of_the_tracker_keeps_the_early_end_of_a_checkpoint(tmp_path: Path) -> None:
    program = """
from vramscope.profiler._history import native_history
with native_history(1000):
    step()
    step()
"""
    # `vramscope phantom run` patches this function; `__wrapped__` is PyTorch's own.
    direct = "memory = torch.cuda.memory\nmemory._record_memory_history = memory._record_memory_history.__wrapped__\n"
    off = "memory._record_memory_history(enabled=None)\n"
    done = python(tmp_path, CHECKPOINTED + direct + off + program)
    assert done.returncode == 0, done.stderr


@needs_torch
def test_an_out_of_memory_in_a_recomputation_is_one(tmp_path: Path) -> None:
    program = """
import vramscope.torch

def too_large(x):
    if torch._C._current_graph_task_id() >= 0:
        return pair(torch.empty(64, device="cuda"), torch.empty(1 << 50, device="cuda"))
    return layers(x)

def pair(first, second):
    return first + second

with vramscope.torch.record("run.pickle", model=layers):
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    try:
        checkpoint(too_large, x, use_reentrant=False).sum().backward()
    except torch.OutOfMemoryError:
        print("caught")
"""
    done = python(tmp_path, CHECKPOINTED + program)
    assert done.stdout.startswith("caught\n"), done.stderr


@needs_torch
@pytest.mark.parametrize(
    ("name", "model", "sizes"),
    [
        ("GPT2", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64}),
        ("Bert", "BertForMaskedLM",
         {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
          "vocab_size": 64}),
        ("T5", "T5ForConditionalGeneration",
         {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 64, "pad_token_id": 0,
          "decoder_start_token_id": 0}),
    ],
)  # fmt: skip
def test_models_of_transformers_are_checkpointed(name: str, model: str, sizes: dict, tmp_path: Path) -> None:
    if not can_import("transformers"):
        pytest.skip("needs transformers in the Python with PyTorch")
    done = python(tmp_path, TRANSFORMERS.format(name=name, model=model, sizes=sizes))
    assert done.returncode == 0, done.stderr
    assert events(tmp_path / "run.pickle")


def test_both_recorders_know_the_same_releases() -> None:
    """The recorder of `vramscope phantom run` works without the package and repeats the rule of `vramscope.torch`."""
    root = Path(__file__).parents[2]
    file = root / "crates/vramscope-fit/src/phantom/history.py"
    spec = importlib.util.spec_from_file_location("phantom_history", file)
    assert spec is not None
    assert spec.loader is not None
    phantom = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(phantom)
    text = (root / "python/vramscope/torch/_history.py").read_text()
    assert f"LOSES_EXCEPTIONS = {phantom.LOSES_EXCEPTIONS}" in text

    class Torch:
        __version__ = ""

    of_old_python = "alloc" if sys.version_info < (3, 13) else "all"
    for version, context in [
        ("2.6.0+cu124", "all"), ("2.10.0", "all"), ("2.11.0+cu130", of_old_python), ("2.11.0a0+git1234", of_old_python),
        ("2.12.0", "all"), ("2.15.0+cu132", "all"), ("3.0.0", "all"), ("unknown", "all"),
    ]:  # fmt: skip
        Torch.__version__ = version
        assert phantom.stack_context(Torch) == context, version
