"""Memory that programs manage themselves: checkpoints, offloading, pinned memory, pools and settings."""

import gc

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from cases import Held, bytes_of, case

MIB = 1 << 20


@case
def checkpoints_keep_less():
    layers = [nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda() for _ in range(4)]

    def kept(forward):
        x = torch.randn(1024, 512, device="cuda", requires_grad=True)
        held = Held()
        for layer in layers:
            x = forward(layer, x)
        after = held.more()
        x.sum().backward()
        return after

    plain = kept(lambda layer, x: layer(x))
    for reentrant in (False, True):
        less = kept(lambda layer, x: checkpoint(layer, x, use_reentrant=reentrant))
        # Only each layer's output stays.
        assert less == 4 * 1024 * 512 * 4, less
    assert plain == less + 2 * 4 * 1024 * 2048 * 4, plain


LAST_LAYERS = {
    "Linear": lambda: nn.Linear(64, 64),
    "LayerNorm": lambda: nn.LayerNorm(64),
    "RMSNorm": lambda: nn.RMSNorm(64),
    "BatchNorm": lambda: nn.BatchNorm1d(64),
    "GroupNorm": lambda: nn.GroupNorm(4, 64),
    "Dropout": lambda: nn.Dropout(0.1),
}


@case
def checkpoints_end_in_any_layer():
    for name, last in LAST_LAYERS.items():
        for reentrant in (False, True):
            layer = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), last()).cuda()
            x = torch.randn(8, 64, device="cuda", requires_grad=True)
            held = Held()
            y = checkpoint(layer, x, use_reentrant=reentrant)
            assert held.more() == y.numel() * 4, (name, reentrant, held.more())
            y.sum().backward()
            assert x.grad is not None and layer[0].weight.grad is not None, (name, reentrant)
            del layer, x, y


@case
def an_exception_in_a_backward_pass_is_the_programs():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            # The tensor is freed while the exception unwinds.
            return fail_beside(torch.empty(MIB, device="cuda"), [][0])

    def fail_beside(tensor, nothing):
        return tensor

    x = torch.randn(64, device="cuda", requires_grad=True)
    try:
        Failing.apply(x).sum().backward()
    except IndexError:
        pass
    else:
        raise AssertionError("no IndexError was raised")


@case
def pinned_memory_and_back():
    x = torch.randn(MIB).pin_memory()
    assert x.is_pinned()
    on_device = x.to("cuda", non_blocking=True)
    back = torch.empty(MIB, pin_memory=True)
    back.copy_(on_device, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(x, back)


@case
def activations_are_offloaded():
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).cuda()
    kept = []
    for hooks in (torch.autograd.graph.save_on_cpu(pin_memory=True), torch.enable_grad()):
        x = torch.randn(2048, 512, device="cuda")
        held = Held()
        with hooks:
            y = model(x)
        kept.append(held.more())
        y.square().sum().backward()
        assert model[0].weight.grad.is_cuda
        model.zero_grad()
        del x, y
    assert kept[0] == 2048 * 512 * 4 and kept[1] == 4 * kept[0], kept


@case
def optimizer_state_is_offloaded():
    model = nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    before = Held()
    for state in optimizer.state.values():
        for name, value in state.items():
            state[name] = value.to("cpu")
    del value
    assert before.more() == -2 * bytes_of(model.parameters()), before.more()


@case
def a_pool_of_its_own():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        private = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    common = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    sizes = {tuple(segment["segment_pool_id"]): segment["total_size"] for segment in torch.cuda.memory_snapshot()}
    assert sizes[tuple(pool.id)] >= 16 * MIB and sizes[(0, 0)] >= 16 * MIB
    own = tuple(pool.id)
    del private, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert common.is_cuda and own not in {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}


@case
def streams_and_events():
    side = torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with torch.cuda.stream(side):
        x = torch.randn(100, device="cuda")
        x.record_stream(torch.cuda.current_stream())
    end.record()
    end.synchronize()
    assert start.query() and start.elapsed_time(end) >= 0


@case
def saved_and_loaded():
    import io

    model = nn.Linear(64, 64).cuda()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for where in ("cuda", "cpu", None):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded["weight"].device.type == (where or "cuda") and loaded["weight"].shape == (64, 64)


@case
def what_was_copied_comes_back():
    """Also through slices, other shapes and other devices, as long as no kernel changed the bytes."""
    x = torch.arange(4096, dtype=torch.int64)
    y = x.cuda()
    assert torch.equal(y.cpu(), x) and torch.equal(y.view(64, 64).cpu(), x.view(64, 64))
    assert torch.equal(y.clone().cpu(), x)
