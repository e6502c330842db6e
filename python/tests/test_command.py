"""The command, as the package brings it."""

import subprocess
import sys

import vramscope


def vramscope_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "vramscope", *arguments], capture_output=True, text=True, timeout=60)


def test_it_says_its_version():
    done = vramscope_command("--version")
    assert done.stdout.strip() == f"vramscope {vramscope.__version__}"


def test_a_missing_file_is_trouble():
    done = vramscope_command("report", "missing.pickle")
    assert done.returncode == 2
    assert "missing.pickle" in done.stderr
