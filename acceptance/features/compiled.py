"""torch.compile."""

import torch
from torch import nn

from cases import case


def model():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 8)).cuda()


def trains(backend, **options):
    original = model()
    compiled = torch.compile(original, backend=backend, **options)
    for _ in range(2):
        y = compiled(torch.randn(16, 64, device="cuda"))
        assert y.shape == (16, 8)
        original.zero_grad()
        y.sum().backward()
    assert all(weight.grad.shape == weight.shape for weight in original.parameters())


@case
def backends_without_kernels():
    for backend in ("eager", "aot_eager"):
        trains(backend)


@case(needs=["triton"])
def inductor():
    """Triton compiles its kernels for the GPU's architecture; they load like any other."""
    trains("inductor")


@case(needs=["triton"])
def inductor_with_graphs():
    trains("inductor", mode="reduce-overhead")


@case(needs=["triton"])
def one_kernel_in_place_of_many():
    """A fused kernel needs no intermediate results, so it allocates less than the eager function."""

    def chain(x):
        return ((x * 2 + 1).relu().exp() * x).sum(-1)

    x = torch.randn(1024, 1024, device="cuda")
    peaks = []
    for function in (chain, torch.compile(chain)):
        function(x)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        assert function(x).shape == (1024,)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[0] >= 2 * x.nbytes and peaks[1] < x.nbytes, peaks


@case(needs=["triton"])
def flex_attention():
    from torch.nn.attention.flex_attention import flex_attention as flex

    query = torch.randn(1, 2, 256, 64, device="cuda", requires_grad=True)
    torch.compile(flex)(query, query, query).sum().backward()
    assert query.grad.shape == query.shape


@case(needs=["triton"])
def a_kernel_of_the_programs_own():
    import kernels

    x = torch.randn(1000, device="cuda")
    assert kernels.double(x).shape == x.shape
