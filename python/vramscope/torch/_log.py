"""Records this process to a log, which another process writes while this one runs."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from vramscope._native import VramscopeError
from vramscope.torch._notes import Notes
from vramscope.torch._operators import Operators
from vramscope.torch._recording import Recording

SUFFIX = ".vramscope"
"""The end of a log's name."""

LIBRARY = "libvramscope_recorder.so"
"""The recorder's library, by the name under which a process has loaded it."""

# Runs the command `vramscope` of the package in the folder of the first argument.
_COMMAND = "import sys; sys.path.insert(0, sys.argv.pop(1)); from vramscope.__main__ import main; main()"

# The results of `vramscope_recorder_attach`.
_REASONS = {
    1: "it is recorded already",
    2: "`vramscope run` records it",
    3: "the folder for temporary files cannot be used",
}


class LogRecord(Recording):
    """A running recording to a log, created by `record`."""

    def __init__(
        self,
        path: Path,
        stacks: str,
        models: list[torch.nn.Module] | None = None,
        optimizers: list[torch.optim.Optimizer] | None = None,
        *,
        categories: bool = False,
        referrers: bool = False,
        operators: bool = False,
    ) -> None:
        self._path = path
        self._referrers = referrers
        self._pid = os.getpid()
        self._notes: Notes | None = None
        self._library: ctypes.CDLL | None = None
        self._operators = Operators() if operators else None
        command = [sys.executable, "-I", "-c", _COMMAND, str(Path(__file__).parent.parent.parent), "attach"]
        command += [str(self._pid), "--record", str(path), "--force", "--stacks", stacks, "--from-within"]
        # In a new session, Ctrl-C in the terminal does not reach the writer. The writer ends with this process.
        self._writer = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            library = self._attach()
        except BaseException:
            self._writer.kill()
            self._writer.communicate()
            if self._operators is not None:
                self._operators.stop()
            raise
        atexit.register(self.stop_at_exit)
        if categories:
            # Now if PyTorch has initialized CUDA, otherwise on initialization.
            torch.cuda._lazy_call(lambda: self._note(library, models or [], optimizers or []))

    def _note(
        self, library: ctypes.CDLL, models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]
    ) -> None:
        if self._library is not None and self._notes is None:
            self._notes = Notes(library, models, optimizers)
            self.observe_out_of_memory()

    def _out_of_memory(self, device: int) -> None:  # noqa: ARG002
        # A program may catch thousands of these.
        self.ignore_out_of_memory()
        self._describe()

    def _describe(self) -> None:
        if self._notes is None:
            return
        try:
            self._notes.describe(referrers=self._referrers)
        except Exception as failure:
            print(f"vramscope: the tensors were not described: {failure}", file=sys.stderr)

    def _attach(self) -> ctypes.CDLL:
        first = self._writer.stdout.readline() if self._writer.stdout is not None else b""
        if not first:
            message = self._writer.communicate()[1].decode(errors="replace").strip()
            raise VramscopeError(message.removeprefix("error: ") or "the process that writes the log has ended")
        loads = json.loads(first)
        try:
            # From an earlier recording. The library is never unloaded.
            library = ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            try:
                library = ctypes.CDLL(loads["library"], mode=os.RTLD_NOW)
            except OSError as error:
                raise VramscopeError(f"the recorder cannot be loaded: {error}") from None
        result = library.vramscope_recorder_attach(os.fsencode(loads["folder"]), loads["stacks"].encode())
        if result != 0:
            raise VramscopeError(f"this process cannot be recorded: {_REASONS.get(result, result)}")
        self._library = library
        return library

    @property
    def path(self) -> Path:
        """The log, with the rank in its name if there are several ranks."""
        rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        if not (rank.isdigit() and world.isdigit() and int(world) > 1):
            return self._path
        return self._path.with_name(f"{self._path.stem}-rank{rank}{SUFFIX}")

    def stop(self) -> None:
        """Ends the recording and completes the log; a second call does nothing.

        Raises:
            VramscopeError: The log cannot be written.
        """
        if self._pid != os.getpid() or self._library is None:
            return
        library, self._library = self._library, None
        if self._notes is not None:
            self.ignore_out_of_memory()
            self._describe()
            self._notes.stop()
        if self._operators is not None:
            self._operators.stop()
        atexit.unregister(self.stop_at_exit)
        library.vramscope_recorder_detach()
        output, errors = self._writer.communicate()
        logs = [json.loads(line) for line in output.splitlines()]
        own: dict[str, Any] | None = next((log for log in logs if log["process"] == self._pid), None)
        if own is None:
            raise VramscopeError(f"{self._path} was not written: {errors.decode(errors='replace').strip()}")
        if own["error"] is not None:
            raise VramscopeError(f"{own['path']} cannot be written: {own['error']}")
        if own["dropped"]:
            print(f"vramscope: {own['path']}: {own['dropped']} events are missing", file=sys.stderr)
        if self._operators is not None:
            self._operators.append(Path(own["path"]))
        print(f"vramscope: recorded to {own['path']}", file=sys.stderr)

    def write(self) -> Path:
        """Returns the path of the log, which is written all the time."""
        return self.path
