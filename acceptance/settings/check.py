"""Each setting of PyTorch's allocator has its effect on a phantom GPU.

`program.py` starts a process for each setting that this release of PyTorch has.
"""

import pathlib

from common import objects

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ()
MINUTES = 0
IN_TEST = "every release"


def check(run):
    """Runs the program, which prints an object for each setting."""
    # Some settings run out of memory on purpose, which gives exit code 1.
    *rows, last = objects(run.phantom(PROGRAM).stdout)
    yield f"{len(rows)} settings", [] if last == {"settings": len(rows)} else ["the program ended early"]
    for row in rows:
        if run.is_chosen(row["setting"]):
            yield row["setting"], row["wrong"]
