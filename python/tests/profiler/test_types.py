"""A type checker's output for a program that uses the profiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from typing import Any
import vramscope
from vramscope import GPUMemoryProfiler, MemoryTracker, SavedResults, profile_context, profile_function

@profile_function
def add(a: int, b: str = "") -> float:
    return a + len(b)

@profile_function(name="later", device=0)
async def load(path: str, *, rows: int = 1) -> list[bytes]:
    return []

class Model:
    @profile_function
    def forward(self, x: float) -> str:
        return str(x)

def use(profiler: GPUMemoryProfiler, tracker: MemoryTracker) -> None:
    result = profiler.profile_function(add, 1, b="x")
    peak: int = result.peak_memory_usage()
    with profile_context("block") as used, profiler.profile_context("inner") as inner:
        used.start_monitoring(0.1)
    with tracker, tracker.phase("epoch") as phase, tracker.capture_oom():
        path: tuple[str, ...] = phase.path
    names = [suspect.function_name for suspect in profiler.leaks()]
    summary: dict[str, Any] = vramscope.get_summary()
    reveal_type(add)
    reveal_type(load)
    reveal_type(Model().forward)
    reveal_type(inner.result)
    reveal_type(SavedResults.read("x").results)
    add("wrong")
"""

SAID = [
    'Revealed type is "def (a: int, b: str =) -> float"',
    'Revealed type is "def (path: str, *, rows: int =) -> Coroutine[Any, Any, list[bytes]]"',
    'Revealed type is "def (x: float) -> str"',
    'Revealed type is "ProfileResult | None"',
    'Revealed type is "list[ProfileResult]"',
    'Argument 1 to "add" has incompatible type "str"; expected "int"',
]


def test_a_users_program_is_checked_strictly(tmp_path: Path):
    pytest.importorskip("mypy", reason="needs mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"MYPYPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", "program.py"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=environment,
    )
    said = [line.split(": ", 2)[2] for line in done.stdout.splitlines() if ": note: Rev" in line or ": error:" in line]
    plain = [
        text.replace("builtins.", "").replace("typing.", "").replace("vramscope.profiler._result.", "") for text in said
    ]
    assert len(plain) == len(SAID), done.stdout
    for text, expected in zip(plain, SAID, strict=True):
        assert text.replace("Union[ProfileResult, None]", "ProfileResult | None").startswith(expected), done.stdout
