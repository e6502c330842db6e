"""What recordings to a snapshot and to a log share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class Recording:
    """A running recording, which ends with its `with` block or with the program."""

    def stop(self) -> None:
        """Ends the recording and writes it; a second call does nothing."""
        raise NotImplementedError

    def stop_at_exit(self) -> None:
        """Like `stop`, but reports a failed write on stderr."""
        try:
            self.stop()
        except Exception as failure:
            print(f"vramscope: the recording was not written: {failure}", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            # Do not hide an exception of the program.
            self.stop_at_exit()
