"""The command that the package installs."""

import subprocess
import sys
from pathlib import Path

import pytest
import vramscope


def vramscope_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "vramscope", *arguments], capture_output=True, text=True, timeout=60)


def test_the_package_has_its_version():
    done = vramscope_command("--version")
    assert done.stdout.strip() == f"vramscope {vramscope.__version__}"


def test_a_missing_file_is_trouble():
    done = vramscope_command("report", "missing.pickle")
    assert done.returncode == 2
    assert "missing.pickle" in done.stderr


NAMES = ["run.json", "run.pickle.gz", "run.pickle.zst", "RUN.HTML", "run.csv"]


@pytest.mark.parametrize(
    ("command", "file"),
    [(command, file) for command in (("run",), ("phantom", "run")) for file in NAMES],
)
def test_a_recording_has_no_name_of_another_format(command: "tuple[str, ...]", file: str) -> None:
    done = vramscope_command(*command, "--record", file, "--", sys.executable, "-c", "print('began')")
    assert done.returncode == 2
    assert "use a name that ends in .pickle or .pkl" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("file", ["run.pickle", "run.pkl", "run", "run.snapshot"])
def test_a_recording_has_any_other_name(file: str, tmp_path: Path) -> None:
    done = vramscope_command("run", "--record", str(tmp_path / file), "--", sys.executable, "-c", "print('began')")
    assert (done.returncode, done.stdout) == (0, "began\n")
