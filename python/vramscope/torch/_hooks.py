"""Hands the hooks of a recording to PyTorch, and takes them back."""

import warnings
from collections.abc import Callable
from typing import Any

from torch.compiler import is_dynamo_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from vramscope._native import Purposes
from vramscope.torch._saved_tensors import SavedTensorsHooks

# What `torch.compile` says of hooks on all modules. Ours are none of the program's business.
_WARNING = "Using `torch.compile\\(module\\)` when there are global hooks on modules"


class Hooks:
    """The hooks of one recording, from its beginning to its end."""

    def __init__(self, purposes: Purposes, saved_tensors: SavedTensorsHooks) -> None:
        self.purposes = purposes
        self.saved_tensors = saved_tensors
        self.handles: list[Any] = [
            register_module_forward_pre_hook(_left_out_of_graphs(purposes.enter)),
            register_module_forward_hook(_left_out_of_graphs(purposes.leave), always_call=True),
            register_optimizer_step_pre_hook(purposes.before_step),
            register_optimizer_step_post_hook(purposes.after_step),
        ]
        saved_tensors.begin(purposes)
        warnings.filterwarnings("ignore", _WARNING, UserWarning)
        self.filter = warnings.filters[0]

    def remove(self) -> None:
        """Takes every hook back; on another thread than the one that began, those of saved tensors fall silent."""
        self.saved_tensors.end()
        self.purposes.stop()
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.filter in warnings.filters:
            warnings.filters.remove(self.filter)  # type: ignore[attr-defined]


def _left_out_of_graphs(hook: Callable[..., None]) -> Callable[..., None]:
    """`hook` where modules are called one by one. In a graph that `torch.compile` makes it would be a break."""

    def call(*arguments: Any) -> None:
        if not is_dynamo_compiling():
            hook(*arguments)

    return call
