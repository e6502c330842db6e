"""Records the operators of this process with `torch.profiler`, and adds them to its log."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from vramscope._native import VramscopeError, append_operators


class Operators:
    """A running profile of the operators, kernels and allocations of this process.

    Raises:
        VramscopeError: The program runs a profile itself.
    """

    def __init__(self) -> None:
        self._profile = torch.profiler.profile(profile_memory=True)
        try:
            self._profile.start()
        except RuntimeError as error:
            raise VramscopeError(f"the operators cannot be recorded: {error}") from None

    def stop(self) -> None:
        """Ends the profile."""
        self._profile.stop()

    def append(self, log: Path) -> None:
        """Appends the profile to a complete log."""
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json.gz"
            self._profile.export_chrome_trace(str(trace))
            append_operators(log, trace)
