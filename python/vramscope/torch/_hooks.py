"""Hands the hooks of a recording to PyTorch, and takes them back."""

import threading
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from vramscope._native import Purposes

# The stack of hooks for saved tensors is PyTorch's own, one a thread; its public form is a context manager.
_push: Any = torch._C._autograd._push_saved_tensors_default_hooks
_pop: Any = torch._C._autograd._pop_saved_tensors_default_hooks


class Hooks:
    """The hooks of one recording, from its beginning to its end."""

    def __init__(self, purposes: Purposes) -> None:
        self.purposes = purposes
        self.thread = threading.get_ident()
        self.handles: list[Any] = [
            register_module_forward_pre_hook(purposes.enter),
            register_module_forward_hook(purposes.leave, always_call=True),
            register_optimizer_step_pre_hook(purposes.before_step),
            register_optimizer_step_post_hook(purposes.after_step),
        ]
        _push(purposes.pack, purposes.unpack)

    def remove(self) -> None:
        """Takes every hook back; on another thread than the one that began, those of saved tensors fall silent."""
        self.purposes.stop()
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if threading.get_ident() == self.thread:
            _pop()
