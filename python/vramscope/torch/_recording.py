"""What recordings to a snapshot and to a log share."""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


_observing: weakref.WeakSet[Recording] = weakref.WeakSet()
_observes = False


class Recording:
    """A running recording, which ends with its `with` block or with the program."""

    _pid: int

    def stop(self) -> None:
        """Ends the recording and writes it; a second call does nothing."""
        raise NotImplementedError

    def stop_at_exit(self) -> None:
        """Like `stop`, but reports a failed write on stderr."""
        try:
            self.stop()
        except Exception as failure:
            print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)

    def observe_out_of_memory(self) -> None:
        """Calls `_out_of_memory` before PyTorch raises, until `ignore_out_of_memory`."""
        global _observes
        _observing.add(self)
        if not _observes:
            _observes = True
            # A callback cannot be unregistered.
            torch._C._cuda_attach_out_of_memory_observer(_out_of_memory)

    def ignore_out_of_memory(self) -> None:
        """Ends `observe_out_of_memory`."""
        _observing.discard(self)

    def _out_of_memory(self, device: int) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            # Do not hide an exception of the program.
            self.stop_at_exit()


def _out_of_memory(device: int, requested: int, total: int, free: int) -> None:  # noqa: ARG001
    for recording in list(_observing):
        if recording._pid != os.getpid():
            continue
        try:
            recording._out_of_memory(device)
        except Exception as failure:
            print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)
