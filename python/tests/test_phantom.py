"""Programs on phantom GPUs from Python. They call CUDA themselves; `test_torch_fit.py` has those of PyTorch."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import vramscope

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

GPU = {"gpu": "rtx4060", "context": "100MiB"}


def allocating(mebibytes: str) -> list[str]:
    """A program that allocates so many MiB of GPU memory."""
    size = f"ctypes.c_size_t(int({mebibytes}) << 20)"
    program = f"import ctypes; assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), {size}) == 0"
    return [sys.executable, "-c", program]


def of_the_command(*arguments: str) -> tuple[int, dict]:
    done = subprocess.run([sys.executable, "-m", "vramscope", *arguments], capture_output=True, timeout=100)
    return done.returncode, json.loads(done.stdout)


def test_a_run_has_the_json_of_the_command():
    program = allocating("1000")
    code, expected = of_the_command(
        "phantom", "run", "--json", "--gpu", "rtx4060", "--context", "100MiB", "--", *program
    )
    answer = vramscope.phantom.run(program, **GPU)
    assert (code, answer) == (0, expected)
    assert answer["gpus"][0]["peak_bytes"] == 1100 << 20
    assert not vramscope.phantom.run(program, **GPU, memory=1 << 30, once=True)["fits"]


def test_a_search_has_the_json_of_the_command():
    program = allocating("100 * {batch}")
    options = ["--gpu", "rtx4060", "--context", "100MiB", "--budget", "1100MiB", "--vary", "batch=1..40"]
    code, expected = of_the_command("fit", "--json", *options, "--", *program)
    lines: list[str] = []
    answer = vramscope.fit(program, **GPU, budget="1100MiB", vary="batch=1..40", progress=lines.append)
    assert (code, answer) == (0, expected)
    assert answer["vary"]["largest"] == 10
    assert lines[0] == "run 1: unchanged, batch=40"


def test_wrong_arguments_and_failed_programs_raise():
    with pytest.raises(ValueError, match="unknown GPU; use one of"):
        vramscope.phantom.run(["true"], gpu="rtx9999")
    with pytest.raises(ValueError, match=r"expected 0\.001 to 86400 seconds"):
        vramscope.phantom.run(["true"], steps_timeout=0)
    with pytest.raises(ValueError, match="the phantom GPU sets LD_PRELOAD"):
        vramscope.fit(["true"], env={"LD_PRELOAD": "x"})
    with pytest.raises(ValueError, match="a recording is a pickle, or a log"):
        vramscope.phantom.run(["true"], record="run.json")
    with pytest.raises(TypeError, match="not a text"):
        vramscope.phantom.run("true")
    for arguments, why in [
        ({"gpus": 0}, "0 GPUs: a run has 1 to 16"),
        ({"rank": 1}, "a rank and the number of ranks belong together"),
        ({"once": True, "sweep_gpus": True}, "other GPUs need other runs than one"),
    ]:
        with pytest.raises(vramscope.VramscopeError, match=why):
            vramscope.phantom.run(["true"], **arguments)
    with pytest.raises(vramscope.VramscopeError, match='there is no change "magic"'):
        vramscope.fit(["true"], only=["magic"])
    with pytest.raises(vramscope.VramscopeError, match="the program ended with exit code 1"):
        vramscope.phantom.run(["false"])
    with pytest.raises(vramscope.VramscopeError, match="/there/is/none: No such file"):
        vramscope.phantom.run(["/there/is/none"])
    with pytest.raises(vramscope.VramscopeError, match="the program did not use a GPU"):
        vramscope.fit(["true"])


def test_an_interrupt_ends_the_program(tmp_path: Path):
    process = tmp_path / "process"

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1)
        with pytest.raises(TimeoutError):
            vramscope.phantom.run(["sh", "-c", f"echo $$ > {process}; exec sleep 600"])
    finally:
        signal.signal(signal.SIGALRM, before)
    until = time.monotonic() + 20
    while Path(f"/proc/{process.read_text().strip()}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    # The signals of this process are as before.
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    caught = next(line for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines() if "SigCgt" in line)
    assert not int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1
