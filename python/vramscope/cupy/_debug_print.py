"""Prints one line per event of CuPy's pool."""

import sys
from typing import Any, TextIO

from vramscope.cupy._memory_hook import MemoryHook


class DebugPrintHook(MemoryHook):
    """Prints the events of CuPy's pool as JSON lines: `cupy.cuda.memory_hooks.DebugPrintHook`.

    Args:
        file: The output. The default is standard output, looked up for each line, so that `contextlib.redirect_stdout`
            and pytest's `capsys` work.
        flush: Flushes `file` after each line.
    """

    name = "DebugPrintHook"

    def __init__(self, file: TextIO | None = None, flush: bool = True) -> None:
        self._file = file
        self.flush = flush

    @property
    def file(self) -> TextIO:
        """The output."""
        return sys.stdout if self._file is None else self._file

    @file.setter
    def file(self, file: TextIO) -> None:
        self._file = file

    def _print(self, message: str) -> None:
        file = self.file
        file.write(message)
        file.write("\n")
        if self.flush:
            file.flush()

    def alloc_postprocess(self, **kwargs: Any) -> None:
        """Prints an allocation from the device; `mem_ptr` is 0 if it failed."""
        self._print(
            '{{"hook":"alloc","device_id":{device_id},"mem_size":{mem_size},"mem_ptr":{mem_ptr}}}'.format(**kwargs)
        )

    def malloc_postprocess(self, **kwargs: Any) -> None:
        """Prints an allocation from the pool."""
        self._print(
            '{{"hook":"malloc","device_id":{device_id},"size":{size},"mem_size":{mem_size},"mem_ptr":{mem_ptr},'
            '"pmem_id":"{pmem_id:#x}"}}'.format(**kwargs)
        )

    def free_postprocess(self, **kwargs: Any) -> None:
        """Prints a free to the pool."""
        self._print(
            '{{"hook":"free","device_id":{device_id},"mem_size":{mem_size},"mem_ptr":{mem_ptr},'
            '"pmem_id":"{pmem_id:#x}"}}'.format(**kwargs)
        )
