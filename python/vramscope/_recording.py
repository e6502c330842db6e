"""Reads recordings of GPU memory."""

from __future__ import annotations

import os
import sys

from vramscope import _native

# Importing `typing` takes longer than this package, and reading does not need it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Readable(Protocol):
        """A file open for reading bytes."""

        def read(self) -> bytes:
            """Returns the rest of the file."""
            ...


def read(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview | Readable,
    *,
    max_expanded: int | None = None,
    progress: Callable[[int], object] | bool | None = None,
) -> _native.Recording:
    """Reads a recording from a path, from bytes, or from a file open for reading bytes.

    Reads every format that the command reads: PyTorch's snapshots as pickle or JSON, and vramscope's logs, each also
    compressed with gzip or Zstandard. The first bytes decide the format. vramscope never runs code from a recording.

    Args:
        source: The path, the bytes or the open file.
        max_expanded: The limit on the decompressed size in bytes. None: 16 MiB plus 250 times the compressed size.
        progress: A function that is called with the number of bytes read so far, every 50 ms and at the end. None shows
            a bar if stderr is a terminal and reading takes longer than a second; False shows nothing.

    Raises:
        ReadError: Not a recording, or a damaged one. The text names the fault, its byte offset and what to do.
        OSError: The file cannot be opened, as FileNotFoundError.
        TypeError: `source` has another type, or is a file open for reading text.
        KeyboardInterrupt: Ctrl-C, which stops reading at once.
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
    """Returns the rest of a file that is open for reading bytes."""
    read = getattr(source, "read", None)
    if not callable(read):
        raise TypeError(
            "source is a path, the bytes of a recording, or a file open for reading bytes, not " + type(source).__name__
        )
    content = read()
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f'source gives {type(content).__name__} instead of bytes: open the file with mode "rb"')
    return bytes(content)


def _is_terminal() -> bool:
    """Whether stderr is a terminal; stderr may be None or closed."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
