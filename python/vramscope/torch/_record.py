"""Records PyTorch's history, and with it what each allocation is for."""

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
from vramscope.torch._saved_tensors import SavedTensorsHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from typing_extensions import Self

MAX_ENTRIES = 500_000
"""How many events a recording keeps where nobody says otherwise: some 150 steps of a small GPT-2."""

_lock = threading.Lock()
_current: Record | None = None
_observes = False


def record(
    path: str | os.PathLike[str],
    *,
    model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    max_entries: int = MAX_ENTRIES,
    stacks: str = "python",
    every: float | None = None,
) -> Record:
    """Begins to record, and writes the recording to `path` when it ends.

    Args:
        path: The file, an ordinary snapshot of PyTorch's: a name that ends as those of other formats, as `run.json`, is
            refused. In a program of several ranks each has its own: rank 3 writes `run-rank3.pickle` where
            `run.pickle` was asked for.
        model: The model, or several: its modules give the paths. Models that are not named here are found when they are
            called.
        optimizer: The optimizer, or several. What they hold already is then known from the beginning; others are found
            when they step.
        max_entries: How many events are kept, the newest: older ones are dropped, so a long run takes bounded memory.
        stacks: "python", or "all" for frames of C++, too, which take minutes to be written.
        every: Seconds between files that are written while the program runs, for programs that may be killed; none
            where it is not given. The program waits while one is written, some seconds of a long recording.

    Returns:
        The recording under way. It ends with `stop()`, with its `with` block, or with the program.

    Raises:
        VramscopeError: Another recording is under way, this PyTorch has no GPU memory to record, or an argument has a
            value that it cannot have, as a path that ends in `.json`.
        TypeError: An argument has another type.
    """
    models = _several(model, "model", lambda one: isinstance(one, torch.nn.Module), "a torch.nn.Module")
    # Some libraries have optimizers that are none of PyTorch's.
    optimizers = _several(optimizer, "optimizer", lambda one: hasattr(one, "param_groups"), "a torch.optim.Optimizer")
    if not torch.cuda.is_available():
        raise VramscopeError("PyTorch sees no GPU here: there is no memory to record")
    return Record(path, models, optimizers, max_entries, stacks, every)


def _several(given: Any, argument: str, is_one: Callable[[Any], bool], wanted: str) -> list[Any]:
    """The objects of an argument that takes one, several or None; `wanted` says in words which objects."""
    if given is None:
        return []
    if is_one(given):
        return [given]
    try:
        several = list(given)
    except TypeError:
        raise TypeError(f"{argument} is {wanted} or several, not {type(given).__name__}") from None
    for each in several:
        if not is_one(each):
            raise TypeError(f"{argument} is {wanted} or several, and has a {type(each).__name__} in it")
    return several


def _check(path: Any, max_entries: Any, stacks: Any, every: Any) -> None:
    """Refuses arguments that make no sense, before anything is begun."""
    path = Path(_arguments.path("path", path))
    if names_another_format(path):
        raise VramscopeError(
            f"{path}: a recording is a pickle: end its name in .pickle or .pkl; `vramscope export` writes other formats"
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise VramscopeError(f"there is no folder {folder} to write {path.name} into")
    if stacks not in ("python", "all"):
        raise VramscopeError(f'stacks is "python" or "all", and not {stacks!r}')
    try:
        _arguments.at_least("max_entries", max_entries, 1)
        if every is not None:
            _arguments.seconds("every", every)
    except ValueError as error:
        raise VramscopeError(str(error)) from None


class Record:
    """A recording under way; `record` makes it."""

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
                f"the allocator {torch.cuda.get_allocator_backend()} has no history: only PyTorch's own is recorded"
            )
        with _lock:
            if _current is not None and _current._pid == self._pid:
                raise VramscopeError(
                    f"a recording to {_current._asked_path} is under way: stop it before another begins"
                )
            _current = self
        self._saved_tensors = SavedTensorsHooks()
        self._purposes = Purposes(torch, max_entries, self._saved_tensors.push, self._saved_tensors.pop)
        try:
            if is_starting:
                self._start()
            else:
                # At once where PyTorch has started its GPUs, otherwise as soon as it does.
                torch.cuda._lazy_call(self._start)
        except BaseException:
            self._end()
            raise
        atexit.register(self.stop_at_exit)

    @property
    def path(self) -> Path:
        """The file that is written, with the rank in its name where there are several."""
        if self._rank is None:
            self._rank = _rank()
        if self._rank is None:
            return self._asked_path
        return self._asked_path.with_name(f"{self._asked_path.stem}-rank{self._rank}{self._asked_path.suffix}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
            return
        try:
            self.stop()
        except Exception as failure:
            # The program's own exception is the one to see.
            print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)

    def stop(self) -> None:
        """Writes the recording and ends it; a second call does nothing.

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
        # An explanation of an out of memory has named the file.
        if not self._ran_out:
            print(f"vramscope: recorded to {path}", file=sys.stderr)

    def write(self) -> Path:
        """Writes what is recorded so far, and goes on recording. Returns the file.

        Raises:
            VramscopeError: The file cannot be written.
        """
        path = self.path
        with self._writing:
            snapshot = self._snapshot()
            try:
                with replacing(path) as out:
                    pickle.dump(snapshot, out, protocol=4)
            except OSError as error:
                raise VramscopeError(f"{path} cannot be written: {error.strerror or error}") from error
        return path

    def _snapshot(self) -> dict[str, Any]:
        self._purposes.note_gradients()
        if not self._history.is_on():
            print("vramscope: the program has turned PyTorch's history off: what it recorded is lost", file=sys.stderr)
        snapshot: dict[str, Any] = torch.cuda.memory._snapshot()
        # What each device has lets a report say how much of it lay beside PyTorch's allocator.
        snapshot["device_total_bytes"] = [
            torch.cuda.get_device_properties(device).total_memory for device in range(torch.cuda.device_count())
        ]
        self._purposes.write_into(snapshot)
        return snapshot

    def _start(self) -> None:
        if _current is not self or self._hooks is not None:
            return
        self._history.begin()
        for model in self._models:
            self._purposes.add_model(model)
        for optimizer in self._optimizers:
            self._purposes.add_optimizer(optimizer)
        # A recording keeps nothing of the program alive.
        self._models.clear()
        self._optimizers.clear()
        self._hooks = Hooks(self._purposes, self._saved_tensors)
        _observe_out_of_memory()
        if self._every is not None:
            threading.Thread(target=self._write_now_and_then, name="vramscope", daemon=True).start()

    def _write_now_and_then(self) -> None:
        while not self._has_ended.wait(self._every):
            try:
                self.write()
            except Exception as failure:
                print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)

    def _end(self) -> None:
        self._let_go()
        self._history.end()

    def _let_go(self) -> None:
        global _current
        self._has_ended.set()
        if self._hooks is not None:
            self._hooks.remove()
            self._hooks = None
        atexit.unregister(self.stop_at_exit)
        with _lock:
            if _current is self:
                _current = None

    def stop_at_exit(self) -> None:
        """As `stop`; where the file cannot be written, it is said on stderr."""
        try:
            self.stop()
        except Exception as failure:
            print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)

    def _out_of_memory(self, device: int) -> None:
        # A program may catch this thousands of times; the snapshot at its end holds them all.
        if self._ran_out:
            return
        self._ran_out = True
        path = self.write()
        # A pipe would be read for ever.
        explanation = (explain_out_of_memory(path, device) or "") if path.is_file() else ""
        # In one piece: other ranks write to the same terminal.
        print(f"{explanation}vramscope: recorded to {path}\n", end="", file=sys.stderr, flush=True)


def _rank() -> int | None:
    """The rank of this process, where there are several."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank() if distributed.get_world_size() > 1 else None
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and world.isdigit() and int(world) > 1 else None


def _observe_out_of_memory() -> None:
    """Has PyTorch call us before it raises; what is attached once stays."""
    global _observes
    if not _observes:
        _observes = True
        torch._C._cuda_attach_out_of_memory_observer(_out_of_memory)


def _out_of_memory(device: int, requested: int, total: int, free: int) -> None:  # noqa: ARG001
    if _current is None or _current._pid != os.getpid():
        return
    try:
        _current._out_of_memory(device)
    except Exception as failure:
        print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)
