"""Wrong arguments of the package's functions: each is either accepted or refused with an error that names it.

A wrong value raises a ValueError, one of the package's errors, or a system error. A wrong type raises a TypeError that
names the argument. Nothing else is raised: no OverflowError, no AttributeError, no panic.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import vramscope
import vramscope.cupy
import vramscope.function_hooks
import vramscope.profiler
from vramscope import profiler

EXAMPLE = Path(__file__).parents[2] / "examples/oom.pickle"
WRONG = [-1, 0, 10**30, 10**5000, -(10**30), math.nan, math.inf, 2.5, None, object(), "\0", "", "x", b"\0", [], {}, int]
# Without a source, a device needs PyTorch; and an unknown address is not a key of a pool.
ALLOWED = (ValueError, vramscope.VramscopeError, OSError, ImportError, KeyError)


class Counted(profiler.MemorySource):
    """A source of numbers without a GPU."""

    def read(self) -> profiler.Reading:
        return profiler.Reading(allocated=0, reserved=0, active=0, inactive_split=0)


def methods(of: object, leave_out: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, function in inspect.getmembers(of, callable):
        if not name.startswith("_") and name not in leave_out:
            yield f"{type(of).__name__}.{name}", function


def functions(folder: Path) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yields the functions, with valid arguments where required."""
    recording = vramscope.read(EXAMPLE, progress=False)
    yield "read", vramscope.read, {"source": EXAMPLE, "progress": False}
    needed = {
        "Recording.ask": {"question": "names"},
        "Recording.diff": {"other": recording},
        "Recording.table": {"name": "holders"},
        "Recording.export": {"path": folder / "out.folded"},
        "Recording.view": {"html": folder / "out.html", "browser": False},
        "VirtualDevice.malloc": {"size": 512},
        "VirtualDevice.free": {"address": 2 << 20},
        "VirtualPool.malloc": {"size": 512},
        "VirtualPool.free": {"address": 2 << 20},
        "GPUMemoryProfiler.profile_function": {"func": int},
    }
    device = vramscope.cupy.VirtualDevice(1 << 30)
    watched = profiler.GPUMemoryProfiler(source=Counted())
    # `start_monitoring` starts a thread; its argument is covered by the constructors below. CuPy's `set_limit` is
    # left out because it raises an OverflowError for a fraction too large for a float.
    for of in (recording, recording.events, device, vramscope.cupy.VirtualPool(device), watched):
        for name, function in methods(of, ("start_monitoring", "set_limit")):
            yield name, function, needed.get(name, {})
    source = {"source": Counted()}
    yield "VirtualDevice", vramscope.cupy.VirtualDevice, {"capacity": 1 << 30}
    yield "VirtualPool", vramscope.cupy.VirtualPool, {"device": device}
    yield "LineProfileHook", vramscope.cupy.LineProfileHook, {}
    yield "CupyMemoryProfileHook", vramscope.function_hooks.CupyMemoryProfileHook, {}
    yield "GPUMemoryProfiler", profiler.GPUMemoryProfiler, source
    yield "MemoryTracker", profiler.MemoryTracker, source
    yield "MemoryMeter", profiler.MemoryMeter, source
    yield "OOMFlightRecorder", lambda buffer_size: profiler.OOMFlightRecorder(
        profiler.OOMFlightRecorderConfig(buffer_size=buffer_size)
    ), {"buffer_size": 1}  # fmt: skip
    yield "format_bytes", profiler.format_bytes, {"n": 1}
    yield "SavedResults.read", profiler.SavedResults.read, {"path": folder}


def wrong_calls(function: Callable[..., Any], good: dict[str, Any]) -> Iterator[tuple[str, Any, BaseException]]:
    """Yields each argument, its wrong value and the resulting exception."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        for value in WRONG:
            arguments = {**good, parameter.name: value}
            # Compiled functions may have positional-only parameters.
            first = [arguments.pop(parameter.name)] if parameter.kind is parameter.POSITIONAL_ONLY else []
            try:
                function(*first, **arguments)
            except BaseException as error:
                yield parameter.name, value, error


def names_it(error: BaseException, argument: str) -> bool:
    """Whether a TypeError names the argument in its text or in a note."""
    return isinstance(error, TypeError) and argument in " ".join([str(error), *getattr(error, "__notes__", ())])


def test_wrong_arguments_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Accepted file names are written into this folder.
    monkeypatch.chdir(tmp_path)
    wrong = []
    for called, function, good in functions(tmp_path):
        for name, value, error in wrong_calls(function, good):
            if not (names_it(error, name) or isinstance(error, ALLOWED)) or isinstance(error, UnicodeError):
                shown = "a huge number" if isinstance(value, int) and abs(value) > 10**9 else repr(value)
                wrong.append(f"{called}({name}={shown}): {type(error).__name__}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda recording: recording.holders(top=-1), ValueError, "top is at least 0, not -1"),
        (lambda recording: recording.report(top="3"), TypeError, "top is a whole number, not str"),
        (lambda recording: recording.holders(at=10**30), ValueError, "at is out of range: 1000000"),
        (lambda recording: recording.peaks(device=-(10**30)), ValueError, "device is out of range: -10000000"),
        (lambda recording: recording.replay(capacity=-1), ValueError, "capacity is at least 0, not -1"),
        (lambda recording: recording.replay(capacity=2.5), TypeError, "capacity is a whole number, not float"),
        (lambda _: vramscope.read(None), TypeError, "source is a path, the bytes of a recording, or a file"),
        (lambda _: vramscope.read(EXAMPLE, max_expanded=-1), ValueError, "max_expanded is at least 0, not -1"),
    ],
)  # fmt: skip
def test_the_error_says_what_is_wrong(
    call: Callable[[vramscope.Recording], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        call(vramscope.read(EXAMPLE, progress=False))
    assert said in str(raised.value)


def test_a_file_that_is_open_for_text_is_refused() -> None:
    with Path(__file__).open() as file, pytest.raises(TypeError, match='open the file with mode "rb"'):
        vramscope.read(file)
