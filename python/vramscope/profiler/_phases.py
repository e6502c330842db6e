"""Named phases of a program, nested per thread."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class PhaseHandle:
    """An open phase: its number, its parent's number, its path, and the thread that entered it."""

    def __init__(
        self,
        scope_id: str,
        name: str,
        parent: PhaseHandle | None,
        metadata: Mapping[str, Any] | None,
        close: Callable[[PhaseHandle], None],
    ) -> None:
        thread = threading.current_thread()
        self.scope_id = scope_id
        self.name = name
        self.parent_scope_id = None if parent is None else parent.scope_id
        self.path: tuple[str, ...] = (*(() if parent is None else parent.path), name)
        self.thread_id = thread.ident or 0
        self.thread_name = thread.name
        self.metadata = dict(metadata or {})
        self.closed = False
        self._close = close

    @property
    def phase_path(self) -> str:
        """Returns the path as text: `epoch / step`."""
        return " / ".join(self.path)

    def close(self) -> None:
        """Ends the phase, once; works in any order and on any thread."""
        if not self.closed:
            self.closed = True
            self._close(self)

    def to_dict(self, action: str) -> dict[str, Any]:
        """Returns the phase's fields for `phase_scope` in events."""
        scope: dict[str, Any] = {
            "action": action,
            "name": self.name,
            "path": list(self.path),
            "depth": len(self.path),
            "scope_id": self.scope_id,
            "parent_scope_id": self.parent_scope_id,
            "thread_id": self.thread_id,
            "thread_name": self.thread_name,
            "sequence": int(self.scope_id),
        }
        if self.metadata:
            scope["attributes"] = dict(self.metadata)
        return scope

    def __enter__(self) -> PhaseHandle:
        """Returns the phase."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the phase."""
        self.close()


class Phases:
    """The open phases, by thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, list[PhaseHandle]] = {}

    def enter(self, name: str, metadata: Mapping[str, Any] | None, close: Callable[[PhaseHandle], None]) -> PhaseHandle:
        """Opens a phase inside this thread's innermost phase. Raises `ValueError` for a blank name."""
        if not isinstance(name, str) or not name.strip():
            raise ValueError("a phase needs a name")
        with self._lock:
            stack = self._open.setdefault(threading.get_ident(), [])
            phase = PhaseHandle(str(next(self._numbers)), name.strip(), stack[-1] if stack else None, metadata, close)
            stack.append(phase)
        return phase

    def leave(self, phase: PhaseHandle) -> None:
        """Closes a phase."""
        with self._lock:
            stack = self._open.get(phase.thread_id, [])
            if phase in stack:
                stack.remove(phase)
            if not stack:
                self._open.pop(phase.thread_id, None)

    def innermost(self) -> list[PhaseHandle]:
        """Returns the innermost open phase of each thread."""
        with self._lock:
            return [stack[-1] for stack in self._open.values()]
