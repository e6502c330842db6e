"""Passes categories, modules and regions of the program to the recorder of a log."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_compiling

from vramscope._native import Purposes, VramscopeError
from vramscope.torch._hooks import Hooks
from vramscope.torch._saved_tensors import SavedTensorsHooks
from vramscope.torch._tensors import describe

if TYPE_CHECKING:
    from collections.abc import Callable

_FUNCTIONS = ("vramscope_recorder_module", "vramscope_recorder_place", "vramscope_recorder_role")

# The hooks keep no notes of their own.
_ENTRIES = 1


class Notes:
    """The hooks of one recording, which write to the log of this process.

    Args:
        library: The recorder's library, which records this process.
        models: Models, whose modules provide the module paths.
        optimizers: Optimizers, whose existing state is known from the start.
    """

    def __init__(
        self, library: ctypes.CDLL, models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]
    ) -> None:
        self._library = library
        if library.vramscope_recorder_begin_notes() != 0:
            raise VramscopeError("this process is not recorded, so its categories cannot be")
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS]
        saved_tensors = SavedTensorsHooks()
        purposes = Purposes(torch, _ENTRIES, saved_tensors.push, saved_tensors.pop, addresses)
        for model in models:
            purposes.add_model(model)
        for optimizer in optimizers:
            purposes.add_optimizer(optimizer)
        self._hooks = Hooks(purposes, saved_tensors)
        self._regions = _Regions(library)
        self._tensor = library.vramscope_recorder_tensor
        self._tensor.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
        self._tensor.restype = None

    def describe(self, *, referrers: bool) -> None:
        """Describes the live tensors, and on request their referrers."""
        for described in describe(referrers=referrers):
            text = described.text().encode()
            self._tensor(described.address, text, len(text))

    def stop(self) -> None:
        """Removes the hooks."""
        self._regions.remove()
        self._hooks.remove()
        self._library.vramscope_recorder_end_notes()


class _Regions:
    """Hooks at both ends of `torch.profiler.record_function`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._note = library.vramscope_recorder_region
        self._note.argtypes = [ctypes.c_uint8, ctypes.c_char_p, ctypes.c_size_t]
        self._note.restype = None
        self._type: Any = torch.autograd.profiler.record_function
        self._enter, self._exit = self._type.__enter__, self._type.__exit__
        self._ours = self._watched(self._enter, is_end=False), self._watched(self._exit, is_end=True)
        self._type.__enter__, self._type.__exit__ = self._ours

    def _watched(self, function: Callable[..., Any], *, is_end: bool) -> Callable[..., Any]:
        """Wraps a method to note that the region begins or ends."""
        note = self._note

        @functools.wraps(function)
        def watched(region: Any, *arguments: Any) -> Any:
            if not is_compiling():
                name = str(region.name).encode()
                note(is_end, name, len(name))
            return function(region, *arguments)

        return watched

    def remove(self) -> None:
        # If someone else patched a method after us, leave both patches in place.
        if (self._type.__enter__, self._type.__exit__) == self._ours:
            self._type.__enter__, self._type.__exit__ = self._enter, self._exit
