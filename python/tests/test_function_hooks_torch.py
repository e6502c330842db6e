"""Compares CupyMemoryProfileHook on PyTorch's modules with PyTorch's own counters."""

import io
import threading

import pytest
from vramscope.function_hooks import CupyMemoryProfileHook

torch = pytest.importorskip("torch", reason="needs torch: ./test --torch")
if not torch.cuda.is_available():
    pytest.skip("needs gpu: ./test --torch has phantom ones", allow_module_level=True)


def allocated():
    return torch.cuda.memory_stats()["allocated_bytes.all.allocated"]


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.act = torch.nn.ReLU(inplace=True)
        self.second = torch.nn.Linear(64, 64)

    def forward(self, inputs):
        return self.second(self.act(self.first(inputs)))


@pytest.fixture
def model():
    return Outer().cuda()


def test_forward_and_backward_of_every_module(model):
    inputs = torch.randn(512, 64, device="cuda")
    model(inputs).sum().backward()
    with CupyMemoryProfileHook() as hook:
        before = allocated()
        output = model(inputs)
        forward = allocated() - before
        loss = output.sum()
        loss.backward()
        total = allocated() - before
    names = [(name, depth) for name, _, _, depth in hook.call_history]
    calls = [("Linear", 1), ("ReLU", 1), ("Linear", 1), ("Outer", 0)]
    assert names[:4] == calls
    assert sorted(names[4:]) == sorted(calls)
    assert hook.call_history[3][1] == forward > 0
    assert sum(used for _, used, _, _ in hook.call_history[:3]) == forward
    assert forward < hook.total_used_bytes() <= total
    assert hook.summary()["Linear"]["occurrence"] == 4
    report = io.StringIO()
    hook.print_report(file=report)
    assert report.getvalue().startswith("FunctionName  UsedBytes  AcquiredBytes  Occurrence\n")


def test_without_gradients_there_is_no_backward(model):
    with CupyMemoryProfileHook() as hook, torch.no_grad():
        model(torch.randn(8, 64, device="cuda"))
    assert len(hook.call_history) == 4


def test_acquired_bytes_are_those_of_segments():
    torch.cuda.empty_cache()
    hook = CupyMemoryProfileHook()
    with hook:
        held = hook.profile(lambda: torch.empty(50 << 20, dtype=torch.uint8, device="cuda"))()
    assert hook.call_history[0][1:] == (50 << 20, 50 << 20, 0)
    del held


def test_modules_in_plain_functions_and_plain_functions_in_modules():
    hook = CupyMemoryProfileHook()

    def inner(inputs):
        return inputs + 1

    class Calls(torch.nn.Module):
        def forward(self, inputs):
            return profiled(inputs)

    profiled = hook.profile(inner)
    inputs = torch.zeros(1, device="cuda")
    with hook, torch.no_grad():
        hook.profile(Calls())(inputs)
    assert [depth for *_, depth in hook.call_history] == [2, 1, 0]
    assert hook.total_used_bytes() == 512


def test_an_error_in_a_module_leaves_totals_right(model):
    class Fails(torch.nn.Module):
        def forward(self, inputs):
            model.first(inputs)
            raise ValueError("no")

    inputs = torch.randn(8, 64, device="cuda")
    with CupyMemoryProfileHook() as hook, torch.no_grad():
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                Fails()(inputs)
        model(inputs)
    assert [depth for *_, depth in hook.call_history] == [1, 0, 1, 0, 1, 1, 1, 0]


def test_an_error_in_backward_and_the_next_step(model):
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(_context, inputs):
            return inputs.clone()

        @staticmethod
        def backward(_context, _gradient):
            raise ValueError("no")

    inputs = torch.randn(8, 64, device="cuda")
    with CupyMemoryProfileHook() as hook:
        with pytest.raises(ValueError, match="no"):
            model.second(Broken.apply(model.first(inputs))).sum().backward()
        num_calls = len(hook.call_history)
        model(inputs).sum().backward()
    assert [depth for *_, depth in hook.call_history[num_calls:]].count(0) == 2


def test_checkpoints_run_forward_again(model):
    from torch.utils.checkpoint import checkpoint

    inputs = torch.randn(8, 64, device="cuda", requires_grad=True)
    with CupyMemoryProfileHook() as hook:
        checkpoint(model, inputs, use_reentrant=False).sum().backward()
    assert hook.summary()["Outer"]["occurrence"] >= 2
    with CupyMemoryProfileHook() as hook:
        checkpoint(model, inputs, use_reentrant=True).sum().backward()
    assert hook.summary()["Outer"]["occurrence"] >= 2


def test_nothing_is_counted_after_the_block(model):
    inputs = torch.randn(8, 64, device="cuda")
    with CupyMemoryProfileHook() as hook:
        output = model(inputs)
    num_calls = len(hook.call_history)
    output.sum().backward()
    model(inputs)
    assert len(hook.call_history) == num_calls


def test_hooks_do_not_pile_up_on_inputs_and_parameters(model):
    inputs = torch.randn(8, 64, device="cuda", requires_grad=True)
    with CupyMemoryProfileHook():
        for _ in range(5):
            model(inputs).sum().backward()
    assert not inputs._backward_hooks
    assert all(not parameter._backward_hooks for parameter in model.parameters())


def test_threads(model):
    inputs = torch.randn(8, 64, device="cuda")
    with CupyMemoryProfileHook() as hook:
        threads = [threading.Thread(target=lambda: [model(inputs) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert hook.summary()["Outer"]["occurrence"] == 80
    assert {depth for name, *_, depth in hook.call_history if name == "Outer"} == {0}
