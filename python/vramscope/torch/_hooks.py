"""Hands the hooks of a recording to PyTorch, and takes them back."""

from typing import Any

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from vramscope._native import Purposes
from vramscope.torch._saved_tensors import SavedTensorsHooks


class Hooks:
    """The hooks of one recording, from its beginning to its end."""

    def __init__(self, purposes: Purposes, saved_tensors: SavedTensorsHooks) -> None:
        self.purposes = purposes
        self.saved_tensors = saved_tensors
        self.handles: list[Any] = [
            register_module_forward_pre_hook(purposes.enter),
            register_module_forward_hook(purposes.leave, always_call=True),
            register_optimizer_step_pre_hook(purposes.before_step),
            register_optimizer_step_post_hook(purposes.after_step),
        ]
        saved_tensors.begin(purposes)

    def remove(self) -> None:
        """Takes every hook back; on another thread than the one that began, those of saved tensors fall silent."""
        self.saved_tensors.end()
        self.purposes.stop()
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
