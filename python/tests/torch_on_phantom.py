"""Runs PyTorch programs on phantom GPUs; `./test --torch` provides the Python with PyTorch and the command."""

import os
import pickle
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE / "torch_programs"
PYTHON = os.environ.get("VRAMSCOPE_TORCH_PYTHON")
COMMAND = os.environ.get("VRAMSCOPE_COMMAND")
PHANTOM = os.environ.get("VRAMSCOPE_PHANTOM", COMMAND)
needs_torch = pytest.mark.skipif(not (PYTHON and COMMAND), reason="needs torch, and the command: ./test --torch")


def on_gpu(
    folder: Path, *command: str, gpus: int = 1, options: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess:
    """Runs a command in `folder` with phantom GPUs, which have 80 GB unless the options say otherwise."""
    return subprocess.run(
        [PHANTOM, "phantom", "run", "--once", "--gpus", str(gpus), *options, "--", *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def python(
    folder: Path,
    program: str,
    *arguments: str,
    gpus: int = 1,
    options: Sequence[str] = (),
    **environment: str,
) -> subprocess.CompletedProcess:
    """Runs a program, given as text, on phantom GPUs."""
    (folder / "program.py").write_text(program)
    return on_gpu(folder, PYTHON, "program.py", *arguments, gpus=gpus, options=options, **environment)


def events(path: Path, device: int = 0) -> list[dict]:
    """Returns a recording's events of a device."""
    with path.open("rb") as file:
        return pickle.load(file)["device_traces"][device]


def can_import(*names: str) -> bool:
    """Whether the Python with PyTorch has these modules too."""
    return subprocess.run([PYTHON, "-c", f"import {', '.join(names)}"], capture_output=True).returncode == 0


TRAIN = """
import torch, sys
from torch import nn
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
def step():
    model(torch.randn(64, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
