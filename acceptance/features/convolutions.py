"""Convolutions with cuDNN."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from cases import Held, bytes_of, case

sys.path.append(str(Path(__file__).parent.parent))
from resnet50 import ResNet50  # noqa: E402


@case
def resnet50_trains_with_cudnn():
    torch.backends.cudnn.enabled = True
    assert torch.backends.cudnn.is_available() and torch.backends.cudnn.version() >= 90000
    held = Held()
    model = ResNet50().cuda()
    weights = list(model.parameters())
    assert held.more() == bytes_of([*weights, *model.buffers()])
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    for _ in range(2):
        scores = model(torch.randn(4, 3, 224, 224, device="cuda"))
        assert scores.shape == (4, 1000)
        F.cross_entropy(scores, torch.zeros(4, dtype=torch.long, device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()
    del scores
    # Two steps retain the momentum of each weight.
    assert held.more() == 2 * bytes_of(weights) + bytes_of(model.buffers()), held.more()


@case
def cudnn_takes_less_than_the_path_without_it():
    """Without cuDNN, a convolution unfolds its input into a buffer."""
    peaks = []
    for enabled in (True, False):
        torch.backends.cudnn.enabled = enabled
        convolution = nn.Conv2d(64, 64, 3, padding=1).cuda()
        torch.cuda.reset_peak_memory_stats()
        convolution(torch.randn(4, 64, 56, 56, device="cuda"))
        peaks.append(torch.cuda.max_memory_allocated())
        del convolution
    torch.backends.cudnn.enabled = True
    assert peaks[0] < peaks[1], peaks


@case
def benchmark_mode_finds_an_algorithm():
    torch.backends.cudnn.benchmark = True
    try:
        convolution = nn.Conv2d(3, 8, 3).cuda()
        y = convolution(torch.randn(2, 3, 32, 32, device="cuda"))
        y.sum().backward()
    finally:
        torch.backends.cudnn.benchmark = False
    assert y.shape == (2, 8, 30, 30) and convolution.weight.grad.shape == (8, 3, 3, 3)


@case
def deterministic_mode():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        convolution = nn.Conv2d(3, 8, 3).cuda()
        convolution(torch.randn(2, 3, 32, 32, device="cuda")).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert convolution.bias.grad.is_cuda


@case
def every_kind_of_convolution():
    for kind, size in [(nn.Conv1d, 1), (nn.Conv2d, 2), (nn.Conv3d, 3), (nn.ConvTranspose2d, 2), (nn.ConvTranspose3d, 3)]:
        layer = kind(4, 8, 3, groups=2).cuda()
        x = torch.randn(2, 4, *[8] * size, device="cuda", requires_grad=True)
        y = layer(x)
        y.sum().backward()
        side = 10 if "Transpose" in kind.__name__ else 6
        assert y.shape == (2, 8, *[side] * size) and x.grad.shape == x.shape


@case
def channels_last_and_half():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
    model = model.cuda().to(memory_format=torch.channels_last).half()
    x = torch.randn(2, 3, 32, 32, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
    y = model(x)
    assert y.is_contiguous(memory_format=torch.channels_last) and y.dtype == torch.half
    y.sum().backward()
