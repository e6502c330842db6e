"""Operators of every kind, including operators whose output shape depends on values."""

import torch
from torch import nn
from torch.nn import functional as F

from cases import case


@case
def sorting_and_searching():
    x = torch.randn(1000, device="cuda")
    assert x.topk(5)[1].shape == (5,)
    assert x.sort()[0].shape == x.argsort().shape == (1000,)
    assert x.kthvalue(3)[0].shape == () and x.median().shape == ()
    assert torch.searchsorted(x, x).shape == (1000,)
    assert torch.histc(x, 10).shape == (10,)
    assert x.cumsum(0).shape == (1000,)


@case
def shapes_that_values_decide():
    """All values are zero, so nothing is found, and nothing is distinct."""
    x = torch.randn(1000, device="cuda")
    assert x.nonzero().shape[1] == 1
    assert x[x > 0].ndim == 1
    assert x.unique().ndim == 1
    assert torch.repeat_interleave(torch.arange(3), torch.tensor([1, 2, 3])).cuda().shape == (6,)


@case
def values_that_decide():
    x = torch.randn(3, device="cuda")
    assert isinstance(x.sum().item(), float)
    assert isinstance(bool((x > 0).any()), bool)
    assert len(x.tolist()) == 3
    assert not torch.isnan(x).any()


@case
def embeddings_and_losses():
    embedding = nn.Embedding(1000, 64, padding_idx=0).cuda()
    words = torch.randint(0, 1000, (8, 16), device="cuda")
    scores = embedding(words) @ embedding.weight.t()
    F.cross_entropy(scores.flatten(0, 1), words.flatten(), label_smoothing=0.1).backward()
    assert embedding.weight.grad.shape == (1000, 64)
    assert nn.EmbeddingBag(10, 3).cuda()(words % 10).shape == (8, 3)


@case
def chance():
    assert torch.multinomial(torch.rand(10, device="cuda") + 1, 3).shape == (3,)
    x = torch.ones(100, device="cuda", requires_grad=True)
    F.dropout(x).sum().backward()
    assert x.grad.shape == (100,)


@case
def norms_and_pools():
    x = torch.randn(2, 8, 16, 16, device="cuda", requires_grad=True)
    for layer in (nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8), nn.AdaptiveAvgPool2d(4), nn.MaxPool2d(2),
                  nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2), nn.LayerNorm([8, 16, 16])):
        layer.cuda()(x).sum().backward()
    assert x.grad.shape == x.shape
    grid = F.affine_grid(torch.eye(2, 3).repeat(2, 1, 1).cuda(), x.shape)
    assert F.grid_sample(x, grid).shape == x.shape


@case
def functions_of_functions():
    weight = torch.randn(8, 8, device="cuda")
    assert torch.func.vmap(lambda x: x @ weight)(torch.randn(5, 8, device="cuda")).shape == (5, 8)
    assert torch.func.jacrev(lambda x: weight @ x)(torch.randn(8, device="cuda")).shape == (8, 8)
    x = torch.randn(8, device="cuda", requires_grad=True)
    first = torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]
    assert torch.autograd.grad(first.sum(), x)[0].shape == (8,)


@case
def scripted():
    model = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU())).cuda()
    assert model(torch.randn(2, 8, device="cuda")).shape == (2, 8)
    traced = torch.jit.trace(nn.Linear(8, 4).cuda(), torch.randn(2, 8, device="cuda"), check_trace=False)
    for _ in range(3):
        assert traced(torch.randn(2, 8, device="cuda")).shape == (2, 4)
    # After two runs, the fuser generates its own kernels.
    fused = torch.jit.script(lambda_of_two)
    for _ in range(4):
        assert fused(torch.randn(64, device="cuda"), torch.randn(64, device="cuda")).shape == (64,)


def lambda_of_two(a, b):
    return (a * b + a).tanh().sigmoid() * b


@case
def compiled_at_run_time():
    """Some operators contain CUDA source, which NVRTC compiles at run time."""
    x = torch.randn(100, device="cuda", dtype=torch.complex64)
    assert torch.special.bessel_j0(x.real).shape == (100,)
    assert x.prod().shape == () and (x.sigmoid() + x.tan()).shape == (100,)
    assert torch.lcm(torch.arange(5, device="cuda"), torch.arange(5, device="cuda")).shape == (5,)
