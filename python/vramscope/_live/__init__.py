"""A program that `vramscope top` and `vramscope monitor` see."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Protocol

from vramscope import _arguments, _native

if TYPE_CHECKING:
    from types import TracebackType

    from vramscope._live.data import Holder, Reading


class Source(Protocol):
    """Where the numbers of a program come from. A thread of the server calls its methods when somebody looks."""

    name: str
    """For people, as `PyTorch on cuda:0`."""
    device_id: int | None
    """The device's number, where there is a device."""
    knows_holders: bool
    """Whether `holders` knows anything."""

    def read(self) -> Reading:
        """What is in use now."""
        ...

    def holders(self, top: int) -> list[Holder] | None:
        """Who holds most of what is live, most bytes first; None where it is not known."""
        ...


class Serving:
    """Serves until it is closed, or the program ends. As a context manager it closes at the end of the block."""

    def __init__(self, servers: list[_native.LiveServer]) -> None:
        self._servers = servers
        atexit.register(self.close)

    @property
    def paths(self) -> list[str]:
        """Where the sockets are, one for each device: for `vramscope top --socket`."""
        return [os.fspath(server.path) for server in self._servers]

    def close(self) -> None:
        """Ends the serving, and removes the sockets."""
        atexit.unregister(self.close)
        for server in self._servers:
            server.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Serving {', '.join(self.paths)}>"


def serve(
    source: Source | None = None, *, title: str | None = None, path: str | None = None, holders: bool = True
) -> Serving:
    """Lets `vramscope top` and `vramscope monitor` see this program: what it holds, and by which line of Python.

    Nothing is counted for it. Somebody who looks is answered by a thread, which asks PyTorch or CuPy for its own
    numbers. Only processes of the same user are answered.

    Args:
        source: Where the numbers come from. None is every GPU of PyTorch, or of CuPy, whichever the program has
            imported.
        title: What the program calls itself; None is the name of its script.
        path: Where the socket is; None is a name of this process in the user's folder, where `vramscope top` finds it.
        holders: Whether to tell which lines of Python hold the memory. PyTorch then keeps the stack of every live block
            (as `_record_memory_history("state")` does), for some microseconds an allocation, unless it already does.

    Returns:
        What ends it; it need not be kept.

    Raises:
        VramscopeError: Neither PyTorch with a GPU nor CuPy is there, or programs cannot be watched on this system.
        OSError: The socket cannot be made.
    """
    if not hasattr(_native, "LiveServer"):
        raise _native.VramscopeError("programs can be watched on Unix alone")
    if source is not None and not all(hasattr(source, name) for name in ("name", "device_id", "knows_holders", "read")):
        raise TypeError(f"source has name, device_id, knows_holders and read(), and {type(source).__name__} has not")
    if path is not None:
        path = _arguments.path("path", path)
    sources = [source] if source is not None else _sources(holders)
    if path is not None and len(sources) > 1:
        raise ValueError(f"there are {len(sources)} devices, each with a socket of its own: give no path")
    if title is None:
        title = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
    servers: list[_native.LiveServer] = []
    try:
        for each in sources:
            knows = holders and each.knows_holders
            servers.append(_native.LiveServer(each, each.name, each.device_id, knows, title, path))
    except BaseException:
        for server in servers:
            server.close()
        raise
    return Serving(servers)


def _sources(holders: bool) -> list[Source]:
    """The GPUs of what the program has imported."""
    found: list[Source] = []
    if "torch" in sys.modules:
        from vramscope._live.torch_source import torch_sources

        found += torch_sources(holders)
    if not found and "cupy" in sys.modules:
        from vramscope._live.cupy_source import cupy_sources

        found += cupy_sources()
    if not found:
        raise _native.VramscopeError(
            "nothing to serve: the program has imported neither PyTorch with a GPU nor CuPy; import one first,"
            " or give a source"
        )
    return found
