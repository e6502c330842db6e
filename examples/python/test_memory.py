"""Tests that limit the GPU memory of code: pytest --vramscope examples/python/test_memory.py"""

import pytest
import torch
from torch import nn


@pytest.fixture
def model() -> nn.Module:
    """A layer with 4 MiB of parameters, and as much for its gradients."""
    return nn.Linear(1024, 1024).cuda()


@pytest.mark.limit_vram("96 MiB")
def test_a_step_stays_small(model: nn.Module) -> None:
    """The batch, its output and the gradients fit, in addition to the fixture's allocations.

    On an H100, cuBLAS allocates and retains 64 MiB of it for the first product of each thread, forward and
    backward.
    """
    model(torch.ones(256, 1024, device="cuda")).sum().backward()


@pytest.mark.limit_vram_leaks("1 MiB")
def test_evaluation_keeps_nothing(model: nn.Module) -> None:
    """Without gradients, a step retains nothing."""
    with torch.no_grad():
        model(torch.ones(256, 1024, device="cuda")).sum().item()
