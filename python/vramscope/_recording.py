"""Reading recordings of GPU memory."""

from __future__ import annotations

import os
import sys

from vramscope import _native

# `typing` is not imported by who only reads: it takes longer than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Readable(Protocol):
        """A file that is open for reading bytes."""

        def read(self) -> bytes:
            """All that is left of it."""
            ...


def read(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview | Readable,
    *,
    max_expanded: int | None = None,
    progress: Callable[[int], object] | bool | None = None,
) -> _native.Recording:
    """Reads a recording: a path, the bytes of one, or a file that is open for reading bytes.

    All that the command reads is read: PyTorch's snapshots as pickle or JSON, and logs, each also compressed with gzip
    or Zstandard. The first bytes tell which. Nothing in a recording can run code.

    Args:
        source: Where the recording is.
        max_expanded: How many bytes a compressed recording may expand to. None is 16 MiB and 250 times its compressed
            bytes.
        progress: Is called with how many bytes of the source have been read, every 50 ms and at the end. None shows a
            bar where stderr is a terminal and reading takes more than a second; False shows nothing.

    Raises:
        ReadError: It is no recording, or is damaged: what is wrong, at which byte, and what to do.
        OSError: The file cannot be opened, as FileNotFoundError.
        TypeError: `source` is none of these, or a file that is open for reading text.
        KeyboardInterrupt: Ctrl-C ends the reading at once.
    """
    origin: str | bytes
    if isinstance(source, (bytes, bytearray, memoryview)):
        origin, name = bytes(source), "bytes"
    elif isinstance(source, (str, os.PathLike)):
        origin = name = os.fspath(source)
    else:
        origin, name = _content(source), str(getattr(source, "name", "a file"))
    if progress not in (None, True, False) and not callable(progress):
        raise TypeError(f"progress is a function, True, False or None, not {type(progress).__name__}")
    if callable(progress):
        return _native.read(origin, name, max_expanded, progress)
    if progress is False or not _is_terminal():
        return _native.read(origin, name, max_expanded)
    from vramscope._progress import Bar

    with Bar("reading", len(origin) if isinstance(origin, bytes) else os.stat(origin).st_size) as bar:
        return _native.read(origin, name, max_expanded, bar.at)


def _content(source: Readable) -> bytes:
    """All that is left of a file that is open for reading bytes."""
    read = getattr(source, "read", None)
    if not callable(read):
        raise TypeError(
            "source is a path, the bytes of a recording, or a file that is open for reading bytes, not "
            + type(source).__name__
        )
    content = read()
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f'source gives {type(content).__name__} instead of bytes: open the file with mode "rb"')
    return bytes(content)


def _is_terminal() -> bool:
    """Whether what is written to stderr is shown on a terminal; there may be none, and it may be closed."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
