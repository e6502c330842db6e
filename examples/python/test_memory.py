"""Tests that hold code to its GPU memory: pytest --vramscope examples/python/test_memory.py"""

import pytest
import torch
from torch import nn


@pytest.fixture
def model() -> nn.Module:
    """A layer whose parameters take 4 MiB, and its gradients as much."""
    return nn.Linear(1024, 1024).cuda()


@pytest.mark.limit_vram("96 MiB")
def test_a_step_stays_small(model: nn.Module) -> None:
    """The batch, its output and the gradients, above what the fixture has allocated.

    On an H100, 64 MiB of it are what cuBLAS takes for the first product of each thread, forward and backward, and
    keeps.
    """
    model(torch.ones(256, 1024, device="cuda")).sum().backward()


@pytest.mark.limit_vram_leaks("1 MiB")
def test_evaluation_keeps_nothing(model: nn.Module) -> None:
    """Without gradients nothing of a step is left."""
    with torch.no_grad():
        model(torch.ones(256, 1024, device="cuda")).sum().item()
