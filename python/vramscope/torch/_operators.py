"""Records the operators of this process with `torch.profiler`, and adds them to its log."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import torch

from vramscope._native import VramscopeError, append_operators


class Operators:
    """A running profile of the operators, kernels and allocations of this process.

    Raises:
        VramscopeError: The program runs a profile itself.
    """

    def __init__(self) -> None:
        if torch._C._autograd._profiler_enabled():
            raise VramscopeError("the operators cannot be recorded: the program runs a profile itself")
        self._profile = torch.profiler.profile(profile_memory=True)
        with warnings.catch_warnings():
            # PyTorch warns that a second cycle would drop the events of the first. There is one cycle.
            warnings.simplefilter("ignore")
            self._profile.start()

    def stop(self) -> None:
        """Ends the profile."""
        try:
            self._profile.stop()
        except RuntimeError as failure:
            print(f"vramscope: the program ended the profile of the operators: {failure}", file=sys.stderr)

    def append(self, log: Path) -> None:
        """Appends the profile to a complete log. A failure is reported and leaves the log as it is."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                trace = Path(folder) / "trace.json.gz"
                self._profile.export_chrome_trace(str(trace))
                append_operators(log, trace)
        except (AssertionError, OSError, RuntimeError) as failure:
            print(f"vramscope: {log} has no operators: {failure}", file=sys.stderr)
