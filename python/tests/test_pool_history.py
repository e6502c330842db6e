"""The history of CuPy's pool, with stand-ins for CuPy's blocks."""

from pathlib import Path
from typing import Any

import pytest
import vramscope
from vramscope._native import PoolHistory


class Memory:
    size = 512


class Pointer:
    def __init__(self) -> None:
        self.ptr, self.device_id, self.mem = 4096, 0, Memory()


def test_an_exception_that_frees_a_block_is_the_programs(tmp_path: Path) -> None:
    history = PoolHistory(str(tmp_path / "run.vramscope"), lambda: 0, lambda: 0)

    def beside(pointer: Any, _: object) -> Any:
        return pointer

    def fails() -> None:
        # No variable holds the block: it is freed while the exception is pending.
        beside(history.malloc(lambda _: Pointer(), 100), [][0])

    for _ in range(2):
        with pytest.raises(IndexError):
            fails()
    history.close()
    rows = vramscope.read(tmp_path / "run.vramscope").info()["devices"]
    assert [row["events"] for row in rows if row["events"]] == [6]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_removed_is_an_error(tmp_path: Path, is_replaced: bool) -> None:
    path = tmp_path / "run.vramscope"
    history = PoolHistory(str(path), lambda: 0, lambda: 0)
    history.malloc(lambda _: Pointer(), 100)
    path.unlink()
    if is_replaced:
        path.write_text("of another program")
    with pytest.raises(vramscope.VramscopeError, match="the file was removed or replaced while it was written"):
        history.close()
    assert path.exists() == is_replaced
