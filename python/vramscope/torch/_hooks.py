"""Installs a recording's hooks in PyTorch and removes them."""

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
    """The hooks of one recording."""

    def __init__(self, purposes: Purposes, saved_tensors: SavedTensorsHooks) -> None:
        self.purposes = purposes
        self.saved_tensors = saved_tensors
        self.handles: list[Any] = [
            register_optimizer_step_pre_hook(purposes.before_step),
            register_optimizer_step_post_hook(purposes.after_step),
        ]
        # PyTorch's own module hooks slow down every call. Our frame is removed from stacks when the recording is
        # written.
        self.call = torch.nn.Module.__call__
        self.watched_call = _watched(self.call, purposes)
        torch.nn.Module.__call__ = self.watched_call
        saved_tensors.begin(purposes)

    def remove(self) -> None:
        """Removes every hook. On other threads, the hooks of saved tensors only become inactive."""
        self.saved_tensors.end()
        self.purposes.stop()
        # If someone else patched `__call__` after us, leave both patches in place.
        if torch.nn.Module.__call__ is self.watched_call:
            torch.nn.Module.__call__ = self.call
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


def _watched(call: Callable[..., Any], purposes: Purposes) -> Callable[..., Any]:
    """Wraps `torch.nn.Module.__call__` to note the start and end of each call."""
    enter, leave = purposes.enter, purposes.leave

    @functools.wraps(call)
    def watched_call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        # While torch.compile traces, the program must look as it does without a recording.
        if is_compiling() or not enter(self, args, kwargs):
            return call(self, *args, **kwargs)
        result = None
        try:
            result = call(self, *args, **kwargs)
            return result
        finally:
            leave(self, result)

    return watched_call
