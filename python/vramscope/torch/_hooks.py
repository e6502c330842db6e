"""Hands the hooks of a recording to PyTorch, and takes them back."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope._native import Purposes
    from vramscope.torch._saved_tensors import SavedTensorsHooks


class Hooks:
    """The hooks of one recording, from its beginning to its end."""

    def __init__(self, purposes: Purposes, saved_tensors: SavedTensorsHooks) -> None:
        self.purposes = purposes
        self.saved_tensors = saved_tensors
        self.handles: list[Any] = [
            register_optimizer_step_pre_hook(purposes.before_step),
            register_optimizer_step_post_hook(purposes.after_step),
        ]
        # PyTorch's own hooks of modules lead each call through a slower way. Our frame is taken out of stacks when they
        # are written.
        self.call = torch.nn.Module.__call__
        self.watched_call = _watched(self.call, purposes)
        torch.nn.Module.__call__ = self.watched_call
        saved_tensors.begin(purposes)

    def remove(self) -> None:
        """Takes every hook back; on another thread than the one that began, those of saved tensors fall silent."""
        self.saved_tensors.end()
        self.purposes.stop()
        # Where another has come in between, both stay in the way.
        if torch.nn.Module.__call__ is self.watched_call:
            torch.nn.Module.__call__ = self.call
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


def _watched(call: Callable[..., Any], purposes: Purposes) -> Callable[..., Any]:
    """`torch.nn.Module.__call__`, with a note where each call begins and ends."""
    enter, leave = purposes.enter, purposes.leave

    @functools.wraps(call)
    def watched_call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        # What is compiled is the program as it is without a recording.
        if is_compiling() or not enter(self, args, kwargs):
            return call(self, *args, **kwargs)
        result = None
        try:
            result = call(self, *args, **kwargs)
            return result
        finally:
            leave(self, result)

    return watched_call
