"""Lets `vramscope top` and `vramscope monitor` watch this process."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Protocol

from vramscope import _arguments, _native

if TYPE_CHECKING:
    from vramscope._live.data import Holder, Reading


class Source(Protocol):
    """A source of live memory numbers. A server thread calls its methods when a client asks."""

    name: str
    """A display name, such as `PyTorch on cuda:0`."""
    device_id: int | None
    """The device's number; None if the source has no device."""
    knows_holders: bool
    """Whether `holders` returns anything."""

    def read(self) -> Reading:
        """Returns the current reading."""
        ...

    def holders(self, top: int) -> list[Holder] | None:
        """Returns the largest holders of live memory, most bytes first; None if unknown."""
        ...


class Serving:
    """A running server. `close`, the end of a `with` block or the end of the program stops it."""

    def __init__(self, servers: list[_native.LiveServer]) -> None:
        self._servers = servers
        atexit.register(self.close)

    @property
    def paths(self) -> list[str]:
        """The sockets' paths, one per device, for `vramscope top --socket`."""
        return [os.fspath(server.path) for server in self._servers]

    def close(self) -> None:
        """Stops the server and removes the sockets."""
        atexit.unregister(self.close)
        for server in self._servers:
            server.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Serving {', '.join(self.paths)}>"


def serve(
    source: Source | None = None, *, title: str | None = None, path: str | None = None, holders: bool = True
) -> Serving:
    """Lets `vramscope top` and `vramscope monitor` watch this process: its memory, and the Python lines that hold it.

    Nothing is counted in advance. A thread answers each client with the current counters of PyTorch or CuPy. Only
    processes of the same user get an answer.

    Args:
        source: The source of the numbers. None: every GPU of PyTorch, or of CuPy, whichever is imported.
        title: The program's display name. None: the name of its script.
        path: The socket's path. None: a path named after this process in the user's folder, where `vramscope top`
            looks.
        holders: Whether to report the Python lines that hold the memory. PyTorch then keeps the stack of every live
            block (as `_record_memory_history("state")` does), which costs some microseconds an allocation. If PyTorch
            already records its history, nothing changes.

    Returns:
        A handle that stops the server; dropping it is fine.

    Raises:
        VramscopeError: Neither PyTorch with a GPU nor CuPy is imported, or the system does not support live monitoring.
        OSError: The socket cannot be created.
    """
    if not hasattr(_native, "LiveServer"):
        raise _native.VramscopeError("live monitoring works only on Unix")
    if source is not None and not all(hasattr(source, name) for name in ("name", "device_id", "knows_holders", "read")):
        raise TypeError(f"source needs name, device_id, knows_holders and read(), not {type(source).__name__}")
    if path is not None:
        path = _arguments.path("path", path)
    sources = [source] if source is not None else _sources(holders)
    if path is not None and len(sources) > 1:
        raise ValueError(f"there are {len(sources)} devices, and each needs its own socket: leave out path")
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
    """Returns the GPUs of the imported library."""
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
