"""Compares CupyMemoryProfileHook with Chainer's own, on Chainer's functions and CuPy's pool."""

import io
import operator
import random
import sys
import threading
from types import SimpleNamespace

import pytest
import vramscope
from chainer_today import chainer
from cupy_pool import Device, cupy, pool_on
from vramscope.function_hooks import CupyMemoryProfileHook
from vramscope.function_hooks._counters import Taken


def report(hook, unit="auto"):
    file = io.StringIO()
    hook.print_report(unit=unit, file=file)
    return file.getvalue()


def test_a_report_in_every_unit():
    hook = CupyMemoryProfileHook()
    for name, used, acquired in (("LinearFunction", 5540000000, 188725000), ("Add", 512, 0)):
        hook.add_call(SimpleNamespace(_impl_name=name), Taken(used, acquired), 0)
    hook.add_call(SimpleNamespace(_impl_name="LinearFunction"), Taken(0, 0), 0)
    assert report(hook) == (
        "  FunctionName  UsedBytes  AcquiredBytes  Occurrence\n"
        "LinearFunction     5.16GB       179.98MB           2\n"
        "           Add     0.00GB         0.00MB           1\n"
    )
    assert report(hook, "auto_foreach").splitlines()[2] == "           Add    512.00B          0.00B           1"
    with pytest.raises(KeyError, match="kb"):
        report(hook, "kb")


def test_a_report_without_calls_is_only_a_header():
    for unit in ("auto", "auto_foreach", "MB"):
        assert report(CupyMemoryProfileHook(), unit) == "FunctionName  UsedBytes  AcquiredBytes  Occurrence\n"


def test_without_an_allocator_there_is_nothing_to_count():
    if "cupy" in sys.modules or "torch" in sys.modules:
        pytest.skip("needs no-gpu: there is memory to count")
    with pytest.raises(vramscope.VramscopeError, match="import torch or cupy"):
        CupyMemoryProfileHook().__enter__()


def test_plain_functions():
    cupy()
    pool = pool_on(Device())
    hook = CupyMemoryProfileHook()

    @hook.profile
    def inner(size: int) -> int:
        """Allocates."""
        pool.malloc(size)
        return size

    @hook.profile
    def outer():
        inner(1000)
        inner(5000)
        raise ValueError("after all")

    assert (inner.__name__, inner.__doc__) == ("inner", "Allocates.")
    with hook:
        assert inner(2000) == 2000
        for _ in range(2):
            with pytest.raises(ValueError, match="after all"):
                outer()
    names = [name.rsplit(".", 1)[1] for name, *_ in hook.call_history]
    assert names == ["inner", "inner", "inner", "outer", "inner", "inner", "outer"]
    assert [call[1:] for call in hook.call_history][:4] == [
        (2048, 2048, 0),
        (1024, 0, 1),
        (5120, 5120, 1),
        (6144, 5120, 0),
    ]
    assert (hook.total_used_bytes(), hook.total_acquired_bytes()) == (2048 + 2 * 6144, 2048 + 5120)
    assert [total["occurrence"] for total in hook.summary().values()] == [5, 2]


def test_the_history_may_be_bounded():
    cupy()
    pool = pool_on(Device())
    hook = CupyMemoryProfileHook(max_calls=3)
    call = hook.profile(lambda: pool.malloc(512))
    with hook:
        for _ in range(10):
            call()
    assert len(hook.call_history) == 3
    assert hook.total_used_bytes() == 5120


def test_hooks_nest_and_refuse_themselves():
    cupy()
    pool = pool_on(Device())
    first, second = CupyMemoryProfileHook(), CupyMemoryProfileHook()
    second.name = "Second"
    with first, second:
        with pytest.raises(KeyError, match="hook CupyMemoryProfileHook already exists"):
            first.__enter__()
        first.profile(second.profile(lambda: pool.malloc(512)))()
    assert first.total_used_bytes() == second.total_used_bytes() == 512
    from cupy.cuda.memory_hook import get_memory_hooks

    assert not get_memory_hooks()


def function(pool, pick, children):
    """A Chainer function that allocates in forward and backward, and calls others."""

    class Node(chainer().FunctionNode):
        def forward(self, inputs):
            pool.malloc(pick.randrange(0, 10_000))
            for child in children:
                child().apply(inputs)
            return inputs

        def backward(self, _indexes, gradients):
            pool.malloc(pick.randrange(0, 5 << 20))
            return gradients

    Node.__name__ = Node.__qualname__ = f"Node{pick.randrange(100)}"
    return Node


@pytest.mark.parametrize("seed", range(10))
def test_random_functions_give_chainers_report(seed):
    import_chainer = chainer()
    import numpy

    pool = pool_on(Device())
    theirs = import_chainer.function_hooks.CupyMemoryProfileHook()
    ours = CupyMemoryProfileHook()
    ours.name = "Ours"
    assert isinstance(ours, import_chainer.FunctionHook)
    assert isinstance(ours, CupyMemoryProfileHook)
    pick = random.Random(seed)
    nodes = []
    for _ in range(8):
        nodes.append(function(pool, pick, pick.sample(nodes, k=min(len(nodes), pick.randrange(3)))))
    with theirs, ours:
        for _ in range(5):
            variable = import_chainer.Variable(numpy.ones((1,), numpy.float32))
            for node in pick.choices(nodes, k=3):
                (variable,) = node().apply((variable,))
            variable.grad = numpy.ones((1,), numpy.float32)
            variable.backward()
    assert ours.call_history == theirs.call_history
    assert ours.summary() == dict(theirs.summary())
    assert ours.total_used_bytes() == theirs.total_used_bytes() > 0
    assert ours.total_acquired_bytes() == theirs.total_acquired_bytes() > 0
    for unit in ("auto", "auto_foreach", "B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB"):
        assert report(ours, unit) == report(theirs, unit)


def test_an_error_in_chainers_function_leaves_totals_right():
    import_chainer = chainer()
    import numpy

    pool = pool_on(Device())
    good = function(pool, random.Random(0), [])

    class Bad(import_chainer.FunctionNode):
        def forward(self, _inputs):
            raise ValueError("no")

    inputs = (numpy.ones((1,), numpy.float32),)
    with CupyMemoryProfileHook() as hook:
        with pytest.raises(ValueError, match="no"):
            Bad().apply(inputs)
        good().apply(inputs)
    assert [call[3] for call in hook.call_history] == [0]
    assert hook.total_used_bytes() == hook.call_history[0][1] > 0


def test_one_hook_on_two_functions():
    import_chainer = chainer()
    import numpy

    pool = pool_on(Device())
    node = function(pool, random.Random(0), [])
    hook = CupyMemoryProfileHook()
    first, second = node(), node()
    for one in (first, second):
        one.add_hook(hook)
    node().apply((numpy.ones((1,), numpy.float32),))
    assert hook.call_history == []
    first.apply((numpy.ones((1,), numpy.float32),))
    second.apply((numpy.ones((1,), numpy.float32),))
    assert len(hook.call_history) == 2
    for one in (first, second):
        one.delete_hook(hook.name)
    with pytest.raises(KeyError):
        first.delete_hook(hook.name)
    assert import_chainer.get_function_hooks() == {}


def test_chainers_registry_refuses_a_second_hook():
    import_chainer = chainer()
    with CupyMemoryProfileHook(), pytest.raises(KeyError, match="hook CupyMemoryProfileHook already exists"):
        CupyMemoryProfileHook().__enter__()
    assert import_chainer.get_function_hooks() == {}


def test_callbacks_are_chainers():
    """Calling the hook's methods directly, as Chainer does, gives the same results as Chainer's own hook."""
    import_chainer = chainer()
    import numpy

    pool = pool_on(Device())
    theirs, ours = import_chainer.function_hooks.CupyMemoryProfileHook(), CupyMemoryProfileHook()
    linear, add = (type(name, (import_chainer.FunctionNode,), {})() for name in ("LinearFunction", "Add"))
    data = (numpy.ones((1,), numpy.float32),)
    for hook in (theirs, ours):
        pool.free_all_blocks()
        assert hook.name == "CupyMemoryProfileHook"
        hook.added(linear)
        hook.forward_preprocess(linear, data)
        held = pool.malloc(3000)
        hook.forward_postprocess(linear, data)
        hook.forward_preprocess(function=add, in_data=data)
        hook.forward_postprocess(function=add, in_data=data)
        hook.backward_preprocess(linear, data, data)
        del held
        pool.malloc(1000)
        hook.backward_postprocess(linear, data, data)
        hook.deleted(linear)
        pool.malloc(9000)
    assert ours.call_history == theirs.call_history
    assert ours.summary() == dict(theirs.summary())
    assert ours.summary() == {
        "LinearFunction": {"used_bytes": 4096, "acquired_bytes": 3072, "occurrence": 2},
        "Add": {"used_bytes": 0, "acquired_bytes": 0, "occurrence": 1},
    }
    assert (ours.total_used_bytes(), ours.total_acquired_bytes()) == (4096, 3072)
    # Hooks compare by identity.
    for hook in (theirs, ours):
        other = type(hook)()
        assert hook == hook
        assert hook != other
        for compare in (operator.lt, operator.le, operator.gt, operator.ge):
            with pytest.raises(TypeError):
                compare(hook, other)


def test_chainer_says_when_a_hook_comes_and_goes():
    import_chainer = chainer()
    told = []

    class Tells(CupyMemoryProfileHook):
        def added(self, function=None):
            told.append(("added", function))
            super().added(function)

        def deleted(self, function=None):
            told.append(("deleted", function))
            super().deleted(function)

    hook = Tells()
    with hook:
        pass
    node = type("Node", (import_chainer.FunctionNode,), {})()
    node.add_hook(hook)
    node.delete_hook(hook.name)
    assert told == [("added", None), ("deleted", None), ("added", node), ("deleted", node)]


def test_each_thread_has_its_own_calls():
    cupy()
    pool = pool_on(Device())
    hook = CupyMemoryProfileHook()
    inside, leave = threading.Event(), threading.Event()

    @hook.profile
    def waits():
        inside.set()
        leave.wait(10)

    call = hook.profile(lambda: pool.malloc(512))
    with hook:
        thread = threading.Thread(target=waits)
        thread.start()
        inside.wait(10)
        call()
        leave.set()
        thread.join()
    assert [depth for *_, depth in hook.call_history] == [0, 0]
