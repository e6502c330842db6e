"""Records PyTorch's history and the category of each allocation."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vramscope import _arguments
from vramscope._files import replacing
from vramscope._native import Purposes, VramscopeError, explain_out_of_memory, names_another_format
from vramscope.torch._history import History
from vramscope.torch._hooks import Hooks
from vramscope.torch._log import SUFFIX, LogRecord
from vramscope.torch._recording import Recording
from vramscope.torch._saved_tensors import SavedTensorsHooks
from vramscope.torch._tensors import TensorNotes, live_optimizers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


MAX_ENTRIES = 500_000
"""The default number of events in a recording: about 150 steps of a small GPT-2."""

_lock = threading.Lock()
_current: Record | None = None


def record(
    path: str | os.PathLike[str],
    *,
    model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    max_entries: int = MAX_ENTRIES,
    stacks: str = "python",
    every: float | None = None,
    categories: bool | None = None,
    referrers: bool = False,
    operators: bool = False,
) -> Record | LogRecord:
    """Begins a recording. A pickle is written when it ends, a log (`.vramscope`) while the program runs.

    Args:
        path: The file, an ordinary PyTorch snapshot; suffixes of other formats, such as `.json`, are refused. In a job
            of several ranks, each rank has its own file: rank 3 writes `run-rank3.pickle` for `run.pickle`. A path that
            ends in `.vramscope` is a log, which has the allocations of all libraries.
        model: A model or several, whose modules provide the module paths. Other models are found when they are called.
        optimizer: An optimizer or several. Their existing state is known from the start; other optimizers are found
            when they step.
        max_entries: The number of newest events to keep. Older events are dropped, so memory use stays bounded.
        stacks: "python", or "all" to add C++ frames, which take minutes to write into a pickle. For logs also "none",
            and "large:1MiB" for Python stacks of requests of at least this size.
        every: The seconds between intermediate writes, for programs that may be killed; by default there are none. The
            program waits during a write, which takes some seconds for a long recording.
        categories: For logs: whether to record categories, phases, modules and regions, which slows the program down.
            By default, a log has them if a model or an optimizer is given. A pickle always has them.
        referrers: Whether to record the Python variables that refer to the largest live tensors, at the first out of
            memory and at the end. The search takes at most two seconds of CPU time. A log needs `categories` for it.
        operators: For logs: whether to record operators and kernels with `torch.profiler`. The page shows them above
            the memory. The profiler keeps them in memory until the recording ends; if the process is killed, they are
            lost. The program must not run another profile.

    Returns:
        The running recording. It ends with `stop()`, with its `with` block, or with the program.

    Raises:
        VramscopeError: Another recording is running, PyTorch sees no GPU, or an argument has an invalid value, such as
            a path that ends in `.json`.
        TypeError: An argument has the wrong type.
    """
    models = _several(model, "model", lambda one: isinstance(one, torch.nn.Module), "a torch.nn.Module")
    # Optimizers of some libraries do not subclass `torch.optim.Optimizer`.
    optimizers = _several(optimizer, "optimizer", lambda one: hasattr(one, "param_groups"), "a torch.optim.Optimizer")
    if not torch.cuda.is_available():
        raise VramscopeError("PyTorch sees no GPU here: there is no memory to record")
    if Path(_arguments.path("path", path)).suffix == SUFFIX:
        return _record_log(
            Path(path),
            models,
            optimizers,
            max_entries,
            stacks,
            every,
            categories,
            referrers=referrers,
            operators=operators,
        )
    if categories is not None:
        raise VramscopeError("categories is for logs: a pickle always has them")
    if operators:
        raise VramscopeError("operators is for logs: end the name of the file in .vramscope")
    return Record(path, models, optimizers, max_entries, stacks, every, referrers=referrers)


def _record_log(
    path: Path,
    models: list[Any],
    optimizers: list[Any],
    max_entries: int,
    stacks: str,
    every: float | None,
    categories: bool | None,
    *,
    referrers: bool,
    operators: bool,
) -> LogRecord:
    """Begins a recording to a log, and refuses the options of pickles."""
    for option, is_given, why in [
        ("max_entries", max_entries != MAX_ENTRIES, "a log has all events"),
        ("every", every is not None, "a log is written while the program runs"),
    ]:
        if is_given:
            raise VramscopeError(f"{option} is for pickles: {why}")
    path = path.absolute()
    if not path.parent.is_dir():
        raise VramscopeError(f"cannot write {path.name}: there is no folder {path.parent}")
    if stacks not in ("none", "python", "all") and not str(stacks).startswith("large:"):
        raise VramscopeError(f'stacks must be "none", "python", "all" or "large:SIZE", not {stacks!r}')
    if categories is None:
        categories = bool(models or optimizers or referrers)
    if referrers and not categories:
        raise VramscopeError("referrers needs categories")
    return LogRecord(path, stacks, models, optimizers, categories=categories, referrers=referrers, operators=operators)


def _several(given: Any, argument: str, is_one: Callable[[Any], bool], wanted: str) -> list[Any]:
    """Returns the objects of an argument that takes one, several or None; `wanted` names their type in errors."""
    if given is None:
        return []
    if is_one(given):
        return [given]
    try:
        several = list(given)
    except TypeError:
        raise TypeError(f"{argument} must be {wanted} or a list of them, not {type(given).__name__}") from None
    for each in several:
        if not is_one(each):
            raise TypeError(f"{argument} must be {wanted} or a list of them; the list has a {type(each).__name__}")
    return several


def _check(path: Any, max_entries: Any, stacks: Any, every: Any) -> None:
    """Checks the arguments before anything starts."""
    path = Path(_arguments.path("path", path))
    if names_another_format(path):
        raise VramscopeError(
            f"{path}: a recording is a pickle: end its name in .pickle or .pkl; `vramscope export` writes other formats"
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise VramscopeError(f"cannot write {path.name}: there is no folder {folder}")
    if stacks not in ("python", "all"):
        raise VramscopeError(f'stacks must be "python" or "all", not {stacks!r}')
    try:
        _arguments.at_least("max_entries", max_entries, 1)
        if every is not None:
            _arguments.seconds("every", every)
    except ValueError as error:
        raise VramscopeError(str(error)) from None


class Record(Recording):
    """A running recording, created by `record`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        models: list[torch.nn.Module],
        optimizers: list[torch.optim.Optimizer],
        max_entries: int,
        stacks: str,
        every: float | None,
        *,
        is_starting: bool = False,
        referrers: bool = False,
    ) -> None:
        global _current
        _check(path, max_entries, stacks, every)
        self._asked_path = Path(path).absolute()
        self._models = models
        self._optimizers = optimizers
        self._pid = os.getpid()
        self._hooks: Hooks | None = None
        self._history = History(max_entries, stacks)
        self._rank: int | None = None
        self._ran_out = False
        self._every = every
        self._has_ended = threading.Event()
        self._writing = threading.RLock()
        if torch.cuda.get_allocator_backend() != "native":
            raise VramscopeError(
                f"the allocator {torch.cuda.get_allocator_backend()} has no history; only PyTorch's own has one"
            )
        with _lock:
            if _current is not None and _current._pid == self._pid:
                raise VramscopeError(
                    f"a recording to {_current._asked_path} is under way: stop it before another begins"
                )
            _current = self
        self._tensors = TensorNotes(referrers=referrers)
        self._saved_tensors = SavedTensorsHooks()
        self._purposes = Purposes(torch, max_entries, self._saved_tensors.push, self._saved_tensors.pop)
        try:
            if is_starting:
                self._start()
            else:
                # Runs now if PyTorch has initialized CUDA, otherwise on initialization.
                torch.cuda._lazy_call(self._start)
        except BaseException:
            self._end()
            raise
        atexit.register(self.stop_at_exit)

    @property
    def path(self) -> Path:
        """The output file, with the rank in its name if there are several ranks."""
        if self._rank is None:
            self._rank = _rank()
        if self._rank is None:
            return self._asked_path
        return self._asked_path.with_name(f"{self._asked_path.stem}-rank{self._rank}{self._asked_path.suffix}")

    def stop(self) -> None:
        """Ends the recording and writes it; a second call does nothing.

        Raises:
            VramscopeError: The file cannot be written.
        """
        if self._pid != os.getpid() or _current is not self:
            return
        if self._hooks is None:
            self._end()
            print(f"vramscope: PyTorch never started a GPU: {self._asked_path} was not written", file=sys.stderr)
            return
        try:
            path = self.write()
        finally:
            self._end()
        # After an out of memory, the explanation has already named the file.
        if not self._ran_out:
            print(f"vramscope: recorded to {path}", file=sys.stderr)

    def write(self) -> Path:
        """Writes the recording so far and continues it. Returns the file's path.

        Raises:
            VramscopeError: The file cannot be written.
        """
        return self._write(describes=True)

    def _write(self, *, describes: bool) -> Path:
        path = self.path
        with self._writing:
            if describes:
                self._describe()
            snapshot = self._snapshot()
            try:
                with replacing(path) as out:
                    pickle.dump(snapshot, out, protocol=4)
            except OSError as error:
                raise VramscopeError(f"{path} cannot be written: {error.strerror or error}") from error
        return path

    def _describe(self) -> None:
        try:
            # A loaded state is known only to its optimizer until the first step.
            for optimizer in live_optimizers():
                self._purposes.add_optimizer(optimizer)
            self._tensors.take()
        except Exception as failure:
            print(f"vramscope: the tensors were not described: {failure}", file=sys.stderr)

    def _snapshot(self) -> dict[str, Any]:
        self._purposes.note_gradients()
        if not self._history.is_on():
            print("vramscope: the program turned off PyTorch's history: the recorded events are lost", file=sys.stderr)
        snapshot: dict[str, Any] = torch.cuda.memory._snapshot()
        # With the devices' totals, a report can show the memory outside PyTorch's allocator.
        snapshot["device_total_bytes"] = [
            torch.cuda.get_device_properties(device).total_memory for device in range(torch.cuda.device_count())
        ]
        self._purposes.write_into(snapshot)
        self._tensors.write_into(snapshot)
        return snapshot

    def _start(self) -> None:
        if _current is not self or self._hooks is not None:
            return
        self._history.begin()
        for model in self._models:
            self._purposes.add_model(model)
        for optimizer in self._optimizers:
            self._purposes.add_optimizer(optimizer)
        # Do not keep the program's objects alive.
        self._models.clear()
        self._optimizers.clear()
        self._hooks = Hooks(self._purposes, self._saved_tensors)
        self.observe_out_of_memory()
        if self._every is not None:
            threading.Thread(target=self._write_now_and_then, name="vramscope", daemon=True).start()

    def _write_now_and_then(self) -> None:
        while not self._has_ended.wait(self._every):
            try:
                self._write(describes=False)
            except Exception as failure:
                print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)

    def _end(self) -> None:
        self._let_go()
        self._history.end()

    def _let_go(self) -> None:
        global _current
        self._has_ended.set()
        self.ignore_out_of_memory()
        if self._hooks is not None:
            self._hooks.remove()
            self._hooks = None
        atexit.unregister(self.stop_at_exit)
        with _lock:
            if _current is self:
                _current = None

    def _out_of_memory(self, device: int) -> None:
        # A program may catch thousands of these; the final snapshot contains all of them.
        if self._ran_out:
            return
        self._ran_out = True
        path = self.write()
        # Reading a pipe would never end.
        explanation = (explain_out_of_memory(path, device) or "") if path.is_file() else ""
        # One write: other ranks use the same terminal.
        print(f"{explanation}vramscope: recorded to {path}\n", end="", file=sys.stderr, flush=True)


def _rank() -> int | None:
    """Returns this process's rank if there are several."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank() if distributed.get_world_size() > 1 else None
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and world.isdigit() and int(world) > 1 else None
