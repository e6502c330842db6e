"""The example of a profiled training."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_the_example_runs():
    torch = pytest.importorskip("torch", reason="needs torch")
    if not torch.cuda.is_available():
        pytest.skip("needs gpu, or `vramscope phantom run`")
    example = Path(__file__).parents[3] / "examples/python/profile_training.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()[:3]] == [
        "forward: 20 calls",
        "backward: 20 calls",
        "train_step: 20 calls",
    ]
    assert "leaks: train_step: 9.50 KiB more after 20 calls, 512 B a call" in done.stdout
