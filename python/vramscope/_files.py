"""All file writes of the package.

Another user who can write to a folder can put a link or a pipe under any name in it. So files are written under an
unpredictable name and then renamed, and files of a new folder are created relative to the open folder. A test rejects
any other write in the package.
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
    Raises `OSError` if the file cannot be written, or if `path` is a link of another user other than root.
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


class NewFolder:
    """A new folder in `root` and its files. Raises `FileExistsError` if the name is taken."""

    def __init__(self, root: str | os.PathLike[str], name: str) -> None:
        outer = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.mkdir(name, 0o755, dir_fd=outer)
            self._folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
        if os.fstat(self._folder).st_uid != os.geteuid():
            os.close(self._folder)
            raise PermissionError(f"{name}: another user has put a folder in its place")

    def __enter__(self) -> NewFolder:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._folder)

    def create(self, name: str) -> BinaryIO:
        """Creates a file that only this user can write to, and opens it for writing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.fdopen(os.open(name, flags, 0o644, dir_fd=self._folder), "wb")

    def remove(self, name: str) -> None:
        """Removes a file."""
        os.unlink(name, dir_fd=self._folder)
