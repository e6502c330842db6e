"""Memory by function, module and phase."""

import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal, NamedTuple, ParamSpec, TextIO, TypedDict, TypeVar

from vramscope import _arguments, _native
from vramscope.function_hooks import _torch
from vramscope.function_hooks._counters import Counters, Taken

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Hook = TypeVar("Hook", bound="CupyMemoryProfileHook")
Unit = Literal["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "auto", "auto_foreach"]


class Total(TypedDict):
    """The sums over all calls of a function."""

    used_bytes: int
    acquired_bytes: int
    occurrence: int


class Running(NamedTuple):
    """A call in progress."""

    function: Any
    start: Taken
    stack_depth: int
    """The number of Python frames down to the caller."""


class Calls(threading.local):
    """The calls in progress on one thread, outermost first."""

    def __init__(self) -> None:
        self.running: list[Running] = []


class CupyMemoryProfileHook:
    """Counts the bytes that functions take from CuPy's pools and PyTorch's allocator.

    The hook is `chainer.function_hooks.CupyMemoryProfileHook`, extended to PyTorch and plain functions:

        with CupyMemoryProfileHook() as hook:
            train()
        hook.print_report()

    Inside the block, every `torch.nn.Module` (forward and backward) and every Chainer function is measured, if PyTorch
    or Chainer is imported. `profile` measures a plain function. If Chainer is imported before the hook is created, the
    hook is a `chainer.FunctionHook`, and `function.add_hook(hook)` accepts it.

    A call's bytes include its nested calls. `total_used_bytes` and `total_acquired_bytes` count outermost calls only;
    `summary` counts all calls, so its sum may be larger. As in Chainer, both phases of a function share one name. A
    call that ends with an exception counts in PyTorch and in plain functions, but not in Chainer; later calls count as
    usual.

    Args:
        max_calls: The number of newest calls to keep in `call_history`; all by default. Totals always cover all calls.
    """

    name = "CupyMemoryProfileHook"

    call_history: list[tuple[str, int, int, int]]
    """One tuple per finished call: function, used bytes, acquired bytes, and nesting depth."""

    def __new__(cls: type[Hook], *_arguments: Any, **_keywords: Any) -> Hook:
        """Creates a `chainer.FunctionHook` if Chainer is imported."""
        chainer = sys.modules.get("chainer")
        if chainer is None or issubclass(cls, chainer.FunctionHook):
            return super().__new__(cls)
        chainers = type(
            cls.__name__, (cls, chainer.FunctionHook), {"__module__": cls.__module__, "__doc__": cls.__doc__}
        )
        hook: Hook = super().__new__(chainers)
        return hook

    def __init__(self, max_calls: int | None = None) -> None:
        self.call_history = []
        self._max_calls = None if max_calls is None else _arguments.at_least("max_calls", max_calls, 0)
        self._counters = Counters()
        self._calls = Calls()
        self._totals: dict[str, Total] = {}
        self._outermost = Taken(0, 0)
        self._remove: Callable[[], None] | None = None
        self.is_entered = False
        self._lock = threading.Lock()

    def __enter__(self: Hook) -> Hook:
        """Begins to measure every Chainer function on this thread, and every PyTorch module.

        Raises `KeyError` if the hook is already entered, or a hook of this name is registered in Chainer, and
        `VramscopeError` if neither CuPy nor PyTorch is imported.
        """
        chainer = sys.modules.get("chainer")
        if self.is_entered or (chainer is not None and self.name in chainer.get_function_hooks()):
            raise KeyError(f"hook {self.name} already exists")
        self.added(None)
        if chainer is not None:
            chainer.get_function_hooks()[self.name] = self
        self._remove = _torch.register(self) if "torch" in sys.modules else None
        self.is_entered = True
        return self

    def __exit__(self, *_: object) -> None:
        """Undoes `__enter__`."""
        chainer = sys.modules.get("chainer")
        if chainer is not None:
            chainer.get_function_hooks().pop(self.name, None)
        if self._remove is not None:
            self._remove()
        self.is_entered = False
        self.deleted(None)

    def added(self, function: Any = None) -> None:  # noqa: ARG002
        """Begins to count. Chainer passes the function that the hook is added to, or None for all functions."""
        self._counters.enter()

    def deleted(self, function: Any = None) -> None:  # noqa: ARG002
        """Undoes `added`."""
        self._counters.exit()

    # Chainer passes the other arguments too; they do not concern memory.

    def forward_preprocess(self, function: Any, in_data: Any) -> None:  # noqa: ARG002
        """Called before the forward pass of `function`."""
        self.begin(function, sys._getframe(1))

    def forward_postprocess(self, function: Any, in_data: Any) -> None:  # noqa: ARG002
        """Called after the forward pass of `function`."""
        self.end(function)

    def backward_preprocess(self, function: Any, in_data: Any, out_grad: Any) -> None:  # noqa: ARG002
        """Called before the backward pass of `function`."""
        self.begin(function, sys._getframe(1))

    def backward_postprocess(self, function: Any, in_data: Any, out_grad: Any) -> None:  # noqa: ARG002
        """Called after the backward pass of `function`."""
        self.end(function)

    def profile(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Returns a wrapper of `function`, with the same name, that is measured while the hook is entered."""

        @functools.wraps(function)
        def profiled(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
            self.begin(function, sys._getframe(0))
            try:
                return function(*arguments, **keywords)
            finally:
                self.end(function)

        return profiled

    def begin(self, function: Any, frame: FrameType) -> None:
        """Begins a call made by `frame`."""
        running = self._calls.running
        depth = _stack_depth(frame)
        # A call that ended with an exception gets no end event. A call nested in it would have a deeper stack.
        while running and running[-1].stack_depth >= depth:
            running.pop()
        running.append(Running(function, self.now(), depth))

    def end(self, function: Any) -> None:
        """Ends a call that `begin` began, and records it."""
        running = self._calls.running
        for i in range(len(running) - 1, -1, -1):
            if running[i].function is function:
                start = running[i].start
                del running[i:]
                self.add_call(function, self.now().since(start), len(running))
                return

    def now(self) -> Taken:
        """Returns the bytes taken so far; only differences are meaningful."""
        return self._counters.now()

    def depth(self) -> int:
        """Returns the number of measured calls in progress on this thread."""
        return len(self._calls.running)

    def add_call(self, function: Any, taken: Taken, depth: int) -> None:
        """Adds a finished call to the history and the totals."""
        name = _name(function)
        with self._lock:
            self.call_history.append((name, taken.used, taken.acquired, depth))
            if self._max_calls is not None and len(self.call_history) > self._max_calls:
                del self.call_history[0]
            total = self._totals.setdefault(name, {"used_bytes": 0, "acquired_bytes": 0, "occurrence": 0})
            total["used_bytes"] += taken.used
            total["acquired_bytes"] += taken.acquired
            total["occurrence"] += 1
            if depth == 0:
                outermost = self._outermost
                self._outermost = Taken(outermost.used + taken.used, outermost.acquired + taken.acquired)

    def total_used_bytes(self) -> int:
        """Returns the bytes that outermost calls took from CuPy's pools and PyTorch's allocator."""
        return self._outermost.used

    def total_acquired_bytes(self) -> int:
        """Returns the bytes that the allocators took from the device during outermost calls."""
        return self._outermost.acquired

    def summary(self) -> dict[str, Total]:
        """Returns `used_bytes`, `acquired_bytes` and `occurrence` per function, in the order of first completion."""
        with self._lock:
            return {name: total.copy() for name, total in self._totals.items()}

    def print_report(self, unit: Unit = "auto", file: TextIO | None = None) -> None:
        """Writes Chainer's table of the summary.

        Args:
            unit: `B` to `ZB` for both columns, in powers of 1024. `auto` picks one unit per column: the largest that
                does not exceed the column's highest number. `auto_foreach` picks a unit for each number.
            file: The output; standard output by default.

        Raises:
            KeyError: `unit` is none of these.
        """
        file = sys.stdout if file is None else file
        rows = [
            (name, total["used_bytes"], total["acquired_bytes"], total["occurrence"])
            for name, total in self.summary().items()
        ]
        file.write(_native.function_table(rows, unit))
        if hasattr(file, "flush"):
            file.flush()


def _name(function: Any) -> str:
    """Returns the name of a Chainer function, of a module's class, or of a plain function."""
    for attribute in ("_impl_name", "__qualname__"):
        name = getattr(function, attribute, None)
        if isinstance(name, str):
            return name
    return type(function).__name__


def _stack_depth(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back
    return depth
