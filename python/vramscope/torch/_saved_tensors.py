"""Hooks for tensors that are saved for backward.

PyTorch has a stack of them for each thread, and the topmost alone are called. So ours stand aside wherever there are
others: a program under a recording does what it does without one.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope._native import Purposes

# The public form of the stack is a context manager.
_autograd: Any = torch._C._autograd


class _Thread(threading.local):
    """What is on the stack of a thread."""

    is_ours = False
    is_lifted = False


class SavedTensorsHooks:
    """The hooks of one recording for saved tensors, on all threads."""

    def __init__(self) -> None:
        self._thread = _Thread()
        self._purposes: Purposes | None = None
        self._pack: Any = None
        self._disabling: Any = None
        self._disable = _autograd._saved_tensors_hooks_disable
        self._enable = _autograd._saved_tensors_hooks_enable

    def begin(self, purposes: Purposes) -> None:
        """Puts them on the stack of this thread, and lets transformations of functions take place."""
        self._purposes = purposes
        self._pack = purposes.pack
        self._disabling = _in_place_of(self._disable, self._lift)
        _autograd._saved_tensors_hooks_disable = self._disabling
        _autograd._saved_tensors_hooks_enable = _in_place_of(self._enable, self._put_back)
        self.push()

    def end(self) -> None:
        """Takes them off the stack of this thread; on others they fall silent."""
        # Where another has come in between, both stay in the way.
        if _autograd._saved_tensors_hooks_disable is self._disabling:
            _autograd._saved_tensors_hooks_disable = self._disable
            _autograd._saved_tensors_hooks_enable = self._enable
        self.pop()
        self._purposes = self._pack = None

    def push(self) -> bool:
        """Puts them on the stack of this thread, if there are no others, and says whether it did."""
        if self._purposes is None or self._thread.is_ours or not _stack_is_empty(self._disable, self._enable):
            return False
        _autograd._push_saved_tensors_default_hooks(self._pack, self._purposes.unpack)
        self._thread.is_ours = True
        return True

    def pop(self) -> bool:
        """Takes them off the stack of this thread, where they are topmost, and says whether it did."""
        if not self._is_topmost():
            return False
        _autograd._pop_saved_tensors_default_hooks()
        self._thread.is_ours = False
        return True

    def _is_topmost(self) -> bool:
        if not self._thread.is_ours or self._purposes is None or not _autograd._saved_tensors_hooks_is_enabled():
            return False
        if hasattr(_autograd, "_top_saved_tensors_default_hooks"):
            top = _autograd._top_saved_tensors_default_hooks(False)
            return top is not None and top[0] is self._pack
        # Older releases do not tell; but the topmost are called.
        before = self._purposes.last_saved()
        with torch.enable_grad():
            torch.ones((), requires_grad=True).exp()
        return self._purposes.last_saved() != before

    def _lift(self, *arguments: Any, **options: Any) -> None:
        # torch.func takes no hooks but its own: ours are lifted while a function is transformed.
        is_refused = options.get("fail_if_non_empty", arguments[1] if len(arguments) > 1 else True)
        if is_refused and self._is_topmost():
            self.pop()
            self._thread.is_lifted = True
        try:
            self._disable(*arguments, **options)
        except BaseException:
            self._put_back_lifted()
            raise

    def _put_back(self) -> None:
        self._enable()
        self._put_back_lifted()

    def _put_back_lifted(self) -> None:
        if self._thread.is_lifted:
            self._thread.is_lifted = False
            self.push()


def _in_place_of(function: Callable[..., None], other: Callable[..., None]) -> Callable[..., None]:
    """`other` as a function with the name and the text of `function`."""

    @functools.wraps(function)
    def stand_in(*arguments: Any, **options: Any) -> None:
        other(*arguments, **options)

    return stand_in


def _stack_is_empty(disable: Callable[[str], None], enable: Callable[[], None]) -> bool:
    """Whether this thread has no hooks, and may have some."""
    if not _autograd._saved_tensors_hooks_is_enabled():
        return False
    try:
        # It refuses where there are some.
        disable("vramscope looks for hooks")
    except RuntimeError:
        return False
    enable()
    return True
