"""Runs the programs in docs/python.md and docs/python/ unchanged, and the examples."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/python.md", *sorted((ROOT / "docs/python").glob("*.md"))]


class Program(NamedTuple):
    """A Python block of a page and its expected output."""

    place: str
    needs: str | None
    text: str
    printed: list[str]


def programs(page: Path) -> list[Program]:
    found = []
    fence = re.compile(r"^```(\S*)(?: needs-(\S+))?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
    blocks = list(fence.finditer(text := page.read_text()))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python":
            continue
        is_next = following and not text[block.end() : following.start()].strip()
        shown = following if is_next and following[1] == "text" else None
        line = text.count("\n", 0, block.start()) + 1
        place = f"{page.relative_to(ROOT)}:{line}"
        found.append(Program(place, block[2], block[3], shown[3].splitlines() if shown else []))
    return found


ALL = [program for page in PAGES for program in programs(page)]


def run(arguments: list[str], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ALL, ids=[program.place for program in ALL])
def test_a_program_of_the_book_runs(program: Program, tmp_path: Path):
    for module in (program.needs or "").split(","):
        if module and importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "examples/oom.pickle", tmp_path / "snapshot.pickle")
    shutil.copy(ROOT / "examples/leak.pickle", tmp_path / "before.pickle")
    (tmp_path / "program.py").write_text(program.text)
    printed = run(["program.py"], tmp_path).splitlines()
    assert [line for line in program.printed if line not in printed] == [], printed


EXAMPLES = ROOT / "examples/python"


def needs_gpu():
    torch = pytest.importorskip("torch", reason="needs torch")
    if not torch.cuda.is_available():
        pytest.skip("needs gpu, or `vramscope phantom run`")


def test_the_example_of_an_oom_runs():
    printed = run([str(EXAMPLES / "oom.py"), str(ROOT / "examples/oom.pickle")], ROOT)
    assert "GiB requested" in printed
    assert "it fits with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in printed


def test_the_example_of_tables_runs():
    pytest.importorskip("polars", reason="needs polars")
    printed = run([str(EXAMPLES / "tables.py"), str(ROOT / "examples/training.pickle.zst")], ROOT)
    assert "workloads.py:19 resnet50" in printed
    assert "25690112" in printed


def test_the_example_of_a_recorded_training_runs(tmp_path: Path):
    needs_gpu()
    printed = run([str(EXAMPLES / "record_training.py")], tmp_path)
    assert re.search(r"^ +[\d.]+ MiB  activation$", printed, re.MULTILINE), printed
    assert re.search(r"^ +26\.\d MiB  optimizer_state$", printed, re.MULTILINE), printed
    assert re.search(r"^ +[\d.]+ MiB  blocks\.0\.self_attn$", printed, re.MULTILINE), printed
    assert (tmp_path / "training.pickle").is_file()


def test_the_example_that_runs_out_of_memory_runs(tmp_path: Path):
    needs_gpu()
    printed = run([str(EXAMPLES / "out_of_memory.py")], tmp_path)
    assert "does not fit; a batch of" in printed
    assert re.search(r"^ +[\d.]+ GiB  activation$", printed, re.MULTILINE), printed
    assert "the recorded requests on h200: they fit" in printed


def test_the_example_of_limits_passes(tmp_path: Path):
    needs_gpu()
    command = [
        "-m",
        "pytest",
        "-p",
        "vramscope.integrations.pytest",
        "-p",
        "no:cacheprovider",
        "--vramscope",
        "-c",
        os.devnull,
    ]
    printed = run([*command, str(EXAMPLES / "test_memory.py")], tmp_path)
    assert "2 passed" in printed
    assert "test_memory.py::test_a_step_stays_small" in printed
