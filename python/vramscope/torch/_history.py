"""Shares PyTorch's memory history between a recording and the program. A process has only one history."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import Any

import torch

LOSES_EXCEPTIONS = [(2, 11)]
"""PyTorch releases that lose an exception if unwinding it frees memory; see `stack_context`."""


def stack_context() -> str:
    """Returns the `context` to record PyTorch's history with: "all", or "alloc", which captures no stacks of frees.

    With "all", PyTorch captures a stack for each free. From 2.11 on it also looks for the traceback of the forward pass
    there (`PythonTraceback::gatherForwardTraceback`). In a backward pass of the releases above, on a Python before
    3.13, that search clears a pending exception. An exception that frees tensors as it unwinds then becomes a
    `SystemError`: the early stop of activation checkpointing, an out of memory during recomputation, an error in a
    hook. The `history.py` of `vramscope phantom run` has the same rule.
    """
    release = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    return "alloc" if release in LOSES_EXCEPTIONS and sys.version_info < (3, 13) else "all"


class History:
    """The history during a recording. The program may turn it on and off without losing events for either side."""

    def __init__(self, max_entries: int, stacks: str) -> None:
        self._max_entries = max_entries
        self._stacks = stacks
        self._is_programs = False
        self._is_under_way = False
        self._record: Any = torch.cuda.memory._record_memory_history
        self._stand_in: Any = None

    def begin(self) -> None:
        """Turns the history on."""
        memory = torch.cuda.memory
        self._is_programs = torch._C._cuda_isHistoryEnabled()
        self._record = memory._record_memory_history
        self._is_under_way = True
        self._record(max_entries=self._max_entries, context=stack_context(), stacks=self._stacks)

        @functools.wraps(self._record)
        def stand_in(enabled: Any = "all", *arguments: Any, **options: Any) -> None:
            self._record_for_program(enabled, *arguments, **options)

        self._stand_in = memory._record_memory_history = stand_in

    def end(self) -> None:
        """Turns the history off, unless the program has it on."""
        if not self._is_under_way:
            return
        self._is_under_way = False
        # If someone else patched the function after us, leave both patches in place.
        if torch.cuda.memory._record_memory_history is self._stand_in:
            torch.cuda.memory._record_memory_history = self._record
        if not self._is_programs:
            self._record(enabled=None)

    def is_on(self) -> bool:
        """Whether PyTorch records. A saved reference to the original function can turn it off."""
        return bool(torch._C._cuda_isHistoryEnabled())

    def _record_for_program(self, enabled: Any, *arguments: Any, **options: Any) -> None:
        if not self._is_under_way:
            self._record(enabled, *arguments, **options)
            return
        if not enabled:
            self._is_programs = False
            return
        legacy = isinstance(enabled, bool)
        memory = torch.cuda.memory
        known = memory._record_memory_history_legacy if legacy else memory._record_memory_history_impl
        # `bind` raises a TypeError for arguments that PyTorch would refuse.
        asked = inspect.signature(known).bind(enabled, *arguments, **options)
        asked.apply_defaults()
        wanted = asked.arguments
        entries = wanted["trace_alloc_max_entries" if legacy else "max_entries"]
        stacks = ("all" if wanted["record_context_cpp"] else "python") if legacy else wanted["stacks"]
        # Record at least as much as each of the two asks for.
        more = {name: wanted[name] for name in ("compile_context", "global_record_annotations") if name in wanted}
        self._record(
            max_entries=max(entries, self._max_entries),
            context=stack_context(),
            stacks="all" if "all" in (stacks, self._stacks) else stacks,
            **more,
        )
        self._is_programs = True
