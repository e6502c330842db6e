"""Records PyTorch's memory in an unchanged program.

Python imports this file at startup if its folder is on the path. When the program imports torch, it starts a recording with the
package vramscope, or notes for the log that another process writes, from the initialization of torch's GPUs to the end of the
process.
"""

import os
import sys

from vramscope_imports import AfterImport, import_next_sitecustomize


def record(torch):
    path = os.environ.get("VRAMSCOPE_RECORD")
    notes = os.environ.get("VRAMSCOPE_RECORD_CATEGORIES")
    if not (path or notes) or not hasattr(torch, "cuda"):
        return
    try:
        from vramscope.torch._run import note_process, record_process
    except ImportError as error:
        sys.exit(
            f"vramscope run: {sys.executable} cannot import the package vramscope ({error}): install it there, with "
            f"`{sys.executable} -m pip install vramscope`"
        )
    if path:
        record_process(path)
    else:
        note_process()


sys.meta_path.insert(0, AfterImport("torch", record))
import_next_sitecustomize(__file__)
