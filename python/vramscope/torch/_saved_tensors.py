"""Hooks for tensors saved for backward.

PyTorch has a stack of such hooks per thread and calls only the topmost pair. So our hooks are not pushed if there are
other hooks: a recording must not change the behavior of the program.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope._native import Purposes

# PyTorch's public API offers only a context manager.
_autograd: Any = torch._C._autograd


class _Thread(threading.local):
    """The state of one thread's hook stack."""

    is_ours = False
    is_lifted = False


class SavedTensorsHooks:
    """The saved-tensor hooks of one recording, on all threads."""

    def __init__(self) -> None:
        self._thread = _Thread()
        self._purposes: Purposes | None = None
        self._pack: Any = None
        self._disabling: Any = None
        self._disable = _autograd._saved_tensors_hooks_disable
        self._enable = _autograd._saved_tensors_hooks_enable

    def begin(self, purposes: Purposes) -> None:
        """Pushes the hooks on this thread's stack and lets torch.func transforms work."""
        self._purposes = purposes
        self._pack = purposes.pack
        self._disabling = _in_place_of(self._disable, self._lift)
        _autograd._saved_tensors_hooks_disable = self._disabling
        _autograd._saved_tensors_hooks_enable = _in_place_of(self._enable, self._put_back)
        self.push()

    def end(self) -> None:
        """Removes the hooks from this thread's stack; on other threads they become inactive."""
        # If someone else patched the function after us, leave both patches in place.
        if _autograd._saved_tensors_hooks_disable is self._disabling:
            _autograd._saved_tensors_hooks_disable = self._disable
            _autograd._saved_tensors_hooks_enable = self._enable
        self.pop()
        self._purposes = self._pack = None

    def push(self) -> bool:
        """Pushes the hooks on this thread's stack if it is empty; returns whether it did."""
        if self._purposes is None or self._thread.is_ours or not _stack_is_empty(self._disable, self._enable):
            return False
        _autograd._push_saved_tensors_default_hooks(self._pack, self._purposes.unpack)
        self._thread.is_ours = True
        return True

    def pop(self) -> bool:
        """Pops the hooks from this thread's stack if they are topmost; returns whether it did."""
        if not self._is_topmost():
            return False
        _autograd._pop_saved_tensors_default_hooks()
        self._thread.is_ours = False
        return True

    def _is_topmost(self) -> bool:
        if not self._thread.is_ours or self._purposes is None or not _autograd._saved_tensors_hooks_is_enabled():
            return False
        if hasattr(_autograd, "_top_saved_tensors_default_hooks"):
            top = _autograd._top_saved_tensors_default_hooks(True)
            return top is not None and top[0] is self._pack
        # Older releases have no accessor. Only the topmost hooks are called, if no graph is being traced.
        before = self._purposes.last_saved()
        was_tracing = _autograd._saved_tensors_hooks_set_tracing(False)
        try:
            with _disable_current_modes(), torch.enable_grad():
                torch.ones((), device="cpu", requires_grad=True).exp()
        finally:
            _autograd._saved_tensors_hooks_set_tracing(was_tracing)
        return self._purposes.last_saved() != before

    def _lift(self, *arguments: Any, **options: Any) -> None:
        # torch.func refuses other hooks, so ours are removed during a transform.
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
    """Wraps `other` under the name and docstring of `function`."""

    @functools.wraps(function)
    def stand_in(*arguments: Any, **options: Any) -> None:
        other(*arguments, **options)

    return stand_in


def _stack_is_empty(disable: Callable[[str], None], enable: Callable[[], None]) -> bool:
    """Whether this thread's hook stack is empty and hooks are allowed."""
    if not _autograd._saved_tensors_hooks_is_enabled():
        return False
    try:
        # `disable` raises if the stack is not empty.
        disable("vramscope checks for hooks")
    except RuntimeError:
        return False
    finally:
        enable()
    return True
