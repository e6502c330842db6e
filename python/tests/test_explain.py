"""Out-of-memory errors are explained from their text."""

import subprocess
import sys

import vramscope

ERROR = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is "
    "free. Including non-PyTorch memory, this process has 78.15 GiB memory in use. Of the allocated memory 77.00 "
    "GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated."
)


def test_a_text_and_an_exception_have_the_same_explanation() -> None:
    told = vramscope.explain(ERROR)
    assert "a request of 2.00 GiB failed because the device is too small: 1.00 GiB is missing" in told
    assert "77.00 GiB  █ allocated" in told
    error = RuntimeError(ERROR)
    assert "a request of 2.00 GiB failed because the device is too small" in vramscope.explain(error)
    assert "No out-of-memory error was found." in vramscope.explain("ValueError: x")


def test_errors_that_end_a_program_are_explained_below_the_traceback() -> None:
    program = "import vramscope, sys; vramscope.explain_errors(); raise {error}"
    for error, is_told in [(f"RuntimeError({ERROR!r})", True), ("ValueError('x')", False)]:
        done = subprocess.run([sys.executable, "-c", program.format(error=error)], capture_output=True, text=True)
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert ("a request of 2.00 GiB failed because" in done.stderr) == is_told
