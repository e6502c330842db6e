"""Records a whole process for `vramscope run`, or its categories."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from vramscope._native import VramscopeError
from vramscope.torch._log import LIBRARY
from vramscope.torch._notes import Notes
from vramscope.torch._record import MAX_ENTRIES, Record

if TYPE_CHECKING:
    from types import FrameType

# The process that owns the file. Other processes that start GPUs get their PID in the file name, unless they have a
# rank.
_OWNER = "VRAMSCOPE_RECORD_OWNER"


def record_process(path: str) -> None:
    """Records from CUDA's initialization to the end of the process, including an end by SIGTERM or SIGHUP."""
    entries = int(os.environ.get("VRAMSCOPE_RECORD_ENTRIES", MAX_ENTRIES))
    every = os.environ.get("VRAMSCOPE_RECORD_EVERY")
    torch.cuda._lazy_call(lambda: _begin(Path(path), entries, float(every) if every else None))


def note_process() -> None:
    """Passes categories, modules and regions to the log of this process, from CUDA's initialization on."""
    torch.cuda._lazy_call(_begin_notes)


def _begin_notes() -> None:
    try:
        # The program preloads it.
        Notes(ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW), [], [])
    except (OSError, VramscopeError) as error:
        print(f"vramscope: no categories are recorded: {error}", file=sys.stderr)


def _begin(path: Path, entries: int, every: float | None) -> None:
    owner = os.environ.setdefault(_OWNER, str(os.getpid()))
    if owner != str(os.getpid()):
        rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        if not (rank.isdigit() and world.isdigit() and int(world) > 1):
            path = path.with_name(f"{path.stem}-pid{os.getpid()}{path.suffix}")
    try:
        recording = Record(path, [], [], entries, "python", every, is_starting=True)
    except VramscopeError as error:
        print(f"vramscope: nothing is recorded: {error}", file=sys.stderr)
        return
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, lambda number, frame: _asked_to_end(recording, number, frame))


def _asked_to_end(recording: Record, number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    signal.signal(number, signal.SIG_DFL)
    # Forked children inherit this handler but record nothing; `stop` checks the process.
    recording.stop_at_exit()
    os.kill(os.getpid(), number)
