"""The walk to the referrers of objects, with objects that are no tensors."""

import gc
import sys
import threading
import time
import types
import weakref

import pytest
from vramscope import _referrers


class Tensor:
    """Stands for a tensor."""


class Grown(Tensor):
    """A subclass that refuses every question."""

    def __getattribute__(self, name):
        raise AssertionError(name)

    def __eq__(self, other):
        raise AssertionError

    def __repr__(self):
        raise AssertionError

    __hash__ = None


def walk(**limits):
    return _referrers.Walk(lambda kind: _referrers.is_a(kind, Tensor), **limits)


def chains_of(tensor, **limits):
    found = [chains for each, chains in walk(**limits).chains() if each is tensor]
    assert len(found) <= 1
    return found[0] if found else []


@pytest.fixture
def module(monkeypatch):
    """A module of a program, which is empty. The local variables of the tests do not count."""
    monkeypatch.setattr(_referrers.Walk, "_frames", lambda _: iter(()))
    made = types.ModuleType("program")
    made.__file__ = "/home/user/program.py"
    monkeypatch.setitem(sys.modules, "program", made)
    return made


class Slots:
    __slots__ = ("kept",)


class Registry:
    last = None


def test_each_kind_of_reference_is_named(module):
    def of(value, tensor):
        module.kept = value
        try:
            return chains_of(tensor)
        finally:
            del module.kept

    tensor = Tensor()
    assert of(tensor, tensor) == ["program.kept"]
    assert of({"a": [0, (tensor,)]}, tensor) == ["program.kept['a'][1][0]"]
    assert of({7: tensor}, tensor) == ["program.kept[7]"]
    assert of({Slots(): tensor}, tensor) == ["program.kept[<Slots>]"]
    held = types.SimpleNamespace(x=tensor)
    assert of(held, tensor) == ["program.kept.x"]
    slots = Slots()
    slots.kept = tensor
    assert of(slots, tensor) == ["program.kept.kept"]
    assert of(lambda: tensor, tensor) == ["program.kept.__closure__[0].cell_contents"]
    assert of({tensor: 1}, tensor) == ["program.kept.keys()"]
    assert of({"tensor"} | {tensor}, tensor) == ["program.kept[...]"]
    layer = types.SimpleNamespace(_modules={}, _parameters={"weight": tensor})
    model = types.SimpleNamespace(_modules={"0": layer}, _parameters={})
    assert of(model, tensor) == ["program.kept[0].weight"]


def test_class_attributes_and_generators(module):
    Registry.last = tensor = Tensor()
    module.Registry = Registry
    try:
        assert any(chain.endswith("Registry.last") for chain in chains_of(tensor))
    finally:
        Registry.last = None

    def generate(mine):
        yield
        del mine

    other = Tensor()
    module.running = generate(other)
    next(module.running)
    assert chains_of(other) == ["program.running.gi_frame.f_locals['mine']"]


def test_an_exception_keeps_the_frames_that_it_left(module):
    def fail():
        local = Tensor()
        found.append(weakref.ref(local))
        raise ValueError

    found = []
    try:
        fail()
    except ValueError as error:
        module.last_error = error
    tensor = found[0]()
    [chain] = [chain for chain in chains_of(tensor) if chain.startswith("program.last_error")]
    assert chain.endswith(".tb_frame.f_locals['local']")


def test_local_variables_of_every_thread_and_no_longer_than_they_live():
    begun, may_end = threading.Event(), threading.Event()
    found = []

    def work():
        inner = Tensor()
        found.append(weakref.ref(inner))
        begun.set()
        may_end.wait(60)
        del inner
        found.append(found[0]() is None)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    [chain] = [chain for _, chains in walk().chains() for chain in chains if chain.startswith("work")]
    assert chain.startswith("work (test_referrers.py:")
    assert chain.endswith("): inner")
    may_end.set()
    thread.join()
    # The frame kept no copy of its variables.
    assert found[1]


def test_several_referrers_of_one_object_are_named_and_cycles_end(module):
    tensor = Tensor()
    tensor.itself = tensor
    module.a = loop = [tensor]
    loop.append(loop)
    module.b = {"x": tensor}
    module.c = tensor
    assert sorted(chains_of(tensor)) == ["program.a[0]", "program.b['x']", "program.c"]
    module.d = (tensor,)
    assert len(chains_of(tensor)) <= _referrers.MOST_CHAINS


def test_no_code_of_the_program_runs(module):
    class Meta(type):
        def __eq__(cls, other):
            raise AssertionError

        def __hash__(cls):
            raise AssertionError

        def __instancecheck__(cls, instance):
            raise AssertionError

        def __subclasscheck__(cls, subclass):
            raise AssertionError

    class Hostile(metaclass=Meta):
        @property
        def __dict__(self):
            raise AssertionError

        @property
        def __class__(self):
            raise AssertionError

        def __getattribute__(self, name):
            raise AssertionError

        def __eq__(self, other):
            raise AssertionError

        def __hash__(self):
            return 7

        def __del__(self):
            ended.append(True)

    class Names(str):
        def __str__(self):
            raise AssertionError

        __repr__ = __format__ = __str__

    class Items(dict):
        def items(self):
            raise AssertionError

        __iter__ = keys = values = items

    class Row(list):
        def __iter__(self):
            raise AssertionError

        __getitem__ = __len__ = __iter__

    ended = []
    hostile = Hostile()
    object.__setattr__(hostile, "x", tensor := Grown())
    module.kept = Row([Items({hostile: Items({Names("n"): Row([hostile])})})])
    found = chains_of(tensor)
    assert found == ["program.kept[0].keys()[...]"]
    assert not ended


def test_finalizers_do_not_run_during_a_walk(module, monkeypatch):
    collected = []

    class Cycle:
        def __init__(self):
            self.itself = self

        def __del__(self):
            collected.append(1)

    module.kept = Tensor()
    looked = gc.get_referents
    monkeypatch.setattr(gc, "get_referents", lambda *of: (Cycle(), looked(*of))[1])
    assert walk().chains()
    assert not collected
    monkeypatch.undo()
    assert gc.isenabled()


def test_depth_objects_and_time_are_limited(module):
    tensor = Tensor()
    chain = tensor
    for _ in range(100):
        chain = [chain]
    module.kept = chain
    deep = walk(depth=50)
    assert not [each for each, _ in deep.chains() if each is tensor]
    assert not deep.is_complete
    [named] = chains_of(tensor, depth=200)
    assert named.startswith("program.kept[0][0]")
    assert len(named) <= 300
    module.kept = [tensor] * 100_001
    assert chains_of(tensor, objects=100_000) == []
    few = walk(objects=1)
    few.chains()
    assert not few.is_complete
    began = time.monotonic()
    short = walk(seconds=0)
    short.chains()
    assert not short.is_complete
    assert time.monotonic() - began < 10


def test_a_search_for_referrers_keeps_no_object_alive(module):
    tensor = Tensor()
    module.kept = [tensor]
    gone = weakref.ref(tensor)
    searched = walk()
    found = searched.chains()
    assert [chains for each, chains in found if each is tensor]
    del found, tensor
    module.kept.clear()
    assert gone() is None


def test_names_are_short_and_printable(module):
    tensor = Tensor()
    module.kept = {"line\nbreak\x1b[31m" + "x" * 100: tensor}
    [chain] = chains_of(tensor)
    assert chain.isprintable()
    assert len(chain) < 100
