"""Measures forward and backward calls of PyTorch's modules."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from vramscope.function_hooks._counters import Taken


class Profile(Protocol):
    """Receives the measured calls."""

    @property
    def is_entered(self) -> bool:
        """Whether calls are measured."""

    def begin(self, function: Any, frame: FrameType) -> None:
        """Called before a module is called, with the calling frame."""

    def end(self, function: Any) -> None:
        """Called after a module was called."""

    def now(self) -> Taken:
        """Returns the bytes taken so far."""

    def depth(self) -> int:
        """Returns the number of calls in progress on this thread."""

    def add_call(self, function: Any, taken: Taken, depth: int) -> None:
        """Adds a finished call."""


class _Backward:
    """The backward pass of one call: from its results' first gradient to its arguments' last gradient.

    If no argument has a gradient, it ends with the whole backward pass. It uses tensor hooks, because PyTorch's module
    hooks would forbid programs to change a module's results in place.
    """

    def __init__(self, profile: Profile, module: Any, depth: int) -> None:
        self.profile = profile
        self.module = module
        self.depth = depth
        self.start: Taken | None = None

    def begin(self, _gradient: Any) -> None:
        if self.start is None and self.profile.is_entered:
            import torch

            self.start = self.profile.now()
            torch.autograd.Variable._execution_engine.queue_callback(self.end)

    def end(self, _gradients: Any = None) -> None:
        if self.start is not None:
            start, self.start = self.start, None
            self.profile.add_call(self.module, self.profile.now().since(start), self.depth)


def _tensors(values: Any) -> "list[Any]":
    """Returns the tensors among arguments or results that were computed and have gradients.

    Parameters and inputs are left out: they outlive the call, and hooks on them would accumulate.
    """
    import torch

    leaves = torch.utils._pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None]


def register(profile: Profile) -> Callable[[], None]:
    """Reports calls of all modules to `profile` until the returned function is called."""
    from torch.autograd.graph import register_multi_grad_hook
    from torch.nn.modules import module as modules

    def before(module: Any, _arguments: Any) -> None:
        profile.begin(module, sys._getframe(1))

    def after(module: Any, arguments: Any, results: Any) -> None:
        profile.end(module)
        outputs = _tensors(results)
        if outputs:
            backward = _Backward(profile, module, profile.depth())
            for output in outputs:
                output.register_hook(backward.begin)
            inputs = _tensors(arguments)
            if inputs:
                register_multi_grad_hook(inputs, backward.end)

    handles = [
        modules.register_module_forward_pre_hook(before),
        modules.register_module_forward_hook(after, always_call=True),
    ]

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return remove
