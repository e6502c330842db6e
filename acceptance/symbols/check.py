"""The phantom has every function of NVIDIA's libraries that this release of PyTorch links.

Lists the functions without a row in `crates/vramscope-phantom/library/table`. Some that PyTorch looks up at run time are guessed from texts
in its libraries, and may not be functions, so they fail nothing.
"""

import pathlib

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ("nm",)
MINUTES = 0
IN_TEST = "every release"


def check(run):
    """Runs the program, which prints a line for each missing function."""
    done = run.phantom(PROGRAM)
    lines = done.stdout.splitlines()
    for line in lines:
        if "(looked up by" in line:
            print(f"  perhaps {line}")
    summary = next((line for line in lines if " linked functions have no row" in line), None)
    linked = [line for line in lines if "(linked by" in line]
    yield summary or "no result", linked if summary else [done.stderr[-2000:]]
