"""Records PyTorch's memory in a program that is not changed.

Python imports this file on its own when its folder is on the path. When the program imports torch, it has the package
vramscope record, from the moment in which torch starts its GPUs to the end of the process.
"""

import os
import sys

from vramscope_imports import AfterImport, import_next_sitecustomize


def record(torch):
    path = os.environ.get("VRAMSCOPE_RECORD")
    if not path or not hasattr(torch, "cuda"):
        return
    try:
        from vramscope.torch._run import record_process
    except ImportError as error:
        sys.exit(
            f"vramscope run: {sys.executable} cannot import the package vramscope ({error}): install it there, with "
            f"`{sys.executable} -m pip install vramscope`"
        )
    record_process(path)


sys.meta_path.insert(0, AfterImport("torch", record))
import_next_sitecustomize(__file__)
