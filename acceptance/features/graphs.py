"""CUDA graphs."""

import torch
from torch import nn

from cases import case


@case
def capture_and_replay():
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(1024, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        graph.replay()
    # A replay allocates nothing.
    assert torch.cuda.memory_allocated() == before
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
    assert tuple(graph.pool()) in pools, pools
    assert y.shape == (1024, 64)


@case
def pools_that_graphs_share():
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    x = torch.randn(1 << 20, device="cuda")
    with torch.cuda.graph(first):
        a = x * 2
    with torch.cuda.graph(second, pool=first.pool()):
        b = x * 3
    assert first.pool() == second.pool() and a.data_ptr() != b.data_ptr()


@case
def a_failed_capture_is_an_error():
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            torch.cuda.synchronize()
    except RuntimeError as error:
        assert "captur" in str(error), error
    else:
        raise AssertionError("a capture that waits for the device went through")


@case
def graphed_callables():
    model = nn.Linear(64, 64).cuda()
    sample = torch.randn(8, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    graphed(torch.randn(8, 64, device="cuda", requires_grad=True)).sum().backward()
    assert model.weight.grad.shape == (64, 64)
