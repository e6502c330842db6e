"""All file writes of the package.

Another user who can write to a folder can put a link or a pipe under any name in it. So files are written under an
unpredictable name and then renamed. A test rejects any other write in the package.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from vramscope._native import OutputFile

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a file whose contents replace `path` when the block ends, after they are flushed to disk.

    After an exception, the former file is unchanged. If `path` is a pipe or a device, the data is written into it.
    Raises `OSError` if the file cannot be written, or if `path` is a link, a pipe or a device of another user other
    than root.
    """
    output = OutputFile(os.fspath(path))
    try:
        with os.fdopen(output.descriptor(), "wb") as file:
            yield file
        output.finish()
    finally:
        output.discard()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a UTF-8 file; see `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())
