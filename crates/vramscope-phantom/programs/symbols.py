"""Print what the installed PyTorch needs of NVIDIA's libraries that the phantom GPU does not answer.

    vramscope phantom run -- python symbols.py

A line a function: its name, whether PyTorch's libraries are linked to it or look it up by its name while they run, and which
of them do. Each line wants a row in library/table/. Names that are looked up are guessed from the texts inside of the
libraries, so that some of them may be no functions. Ends with 1 where a linked function has no row.
"""

import importlib.util
import mmap
import os
import pathlib
import re
import subprocess
import sys

# How names of NVIDIA's functions begin. Those of the compiler (nvrtc, nvJitLink) work without a GPU and stay NVIDIA's own.
LINKED = re.compile(r"(__cuda|cuda|cublas|cudnn|cufft|cufile|cuFile|curand|cusolver|cusparse|cupti|nccl|nvml|nvshmem|cu[A-Z])\w+")
# Functions of the driver and of NVML are looked up by names that say what they are about.
LOOKED_UP = re.compile(
    rb"\0((?:cu(?:Ctx|Dev|Device|Event|Func|Get|Graph|GreenCtx|Init|Ipc|Kernel|Launch|Library|Link|Logs|Mem|Memcpy|Memset|Module"
    rb"|Multicast|Occupancy|Pointer|Profiler|Stream|TensorMap)|nvml(?:Device|System|Init|Shutdown|Error))[A-Za-z0-9_]*)(?=\0)"
)


def main():
    answered = symbols(phantom(), "--defined-only")
    torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent
    linked, looked_up = {}, {}
    for library in sorted([*torch.glob("lib/*.so"), *torch.glob("*.so")]):
        for name in symbols(library, "--undefined-only"):
            if LINKED.fullmatch(name) and name not in answered:
                linked.setdefault(name, []).append(library.name)
        for name in texts(library):
            if not any(name + revision in answered for revision in ("",)):
                looked_up.setdefault(name, []).append(library.name)
    for how, names in (("linked", linked), ("looked up", looked_up)):
        for name, libraries in sorted(names.items()):
            print(f"{name} ({how} by {', '.join(libraries)})")
    print(f"{len(linked)} linked functions have no row, and perhaps {len(looked_up)} that are looked up")
    sys.exit(bool(linked))


def phantom():
    """The library that this program runs on."""
    preloaded = re.split("[: ]", os.environ.get("LD_PRELOAD", ""))
    found = [library for library in preloaded if library.endswith("libcuda.so.1")]
    return found[0] if found else sys.exit("start this program with `vramscope phantom run`")


def symbols(library, which):
    """The names of a library's dynamic symbols, without the version behind an @."""
    command = ["nm", "--dynamic", "--format=just-symbols", which, library]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {line.partition("@")[0] for line in out.splitlines()}


def texts(library):
    """Names of functions among a library's texts."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # NVIDIA's runtime, where it is linked into a library, names every function of the driver.
        has_runtime = data.find(b"\0cuGetExportTable\0") >= 0
        return set() if has_runtime else {name.decode() for name in LOOKED_UP.findall(data)}


if __name__ == "__main__":
    main()
