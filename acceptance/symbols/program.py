"""Print the functions of NVIDIA's libraries that the installed PyTorch needs and the phantom GPU lacks.

    vramscope phantom run --once -- python acceptance/symbols/program.py

One line per function: its name, whether PyTorch's libraries link it or look it up at run time, and the libraries. Each line needs a
row in `crates/vramscope-phantom/library/table`. The looked-up names are guessed from texts in the libraries, so some may not be functions.
Exits with 1 if a linked function has no row.
"""

import importlib.util
import mmap
import os
import pathlib
import re
import subprocess
import sys

# Prefixes of NVIDIA's functions. NVIDIA's compiler libraries (nvrtc, nvJitLink) work without a GPU and are not replaced.
LINKED = re.compile(r"(__cuda|cuda|cublas|cudnn|cufft|cufile|cuFile|curand|cusolver|cusparse|cupti|nccl|nvml|nvshmem|cu[A-Z])\w+")
# Functions of the driver and of NVML that are looked up have descriptive names.
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
            if name not in answered:
                looked_up.setdefault(name, []).append(library.name)
    for how, names in (("linked", linked), ("looked up", looked_up)):
        for name, libraries in sorted(names.items()):
            print(f"{name} ({how} by {', '.join(libraries)})")
    print(f"{len(linked)} linked functions have no row, and perhaps {len(looked_up)} looked-up ones")
    sys.exit(bool(linked))


def phantom():
    """The phantom library that this program runs on."""
    preloaded = re.split("[: ]", os.environ.get("LD_PRELOAD", ""))
    found = [library for library in preloaded if library.endswith("libcuda.so.1")]
    return found[0] if found else sys.exit("start this program with `vramscope phantom run`")


def symbols(library, which):
    """The names of a library's dynamic symbols, without the version after the @."""
    command = ["nm", "--dynamic", "--format=just-symbols", which, library]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {line.partition("@")[0] for line in out.splitlines()}


def texts(library):
    """Function names among a library's texts."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # A library with NVIDIA's runtime linked in contains the name of every driver function.
        has_runtime = data.find(b"\0cuGetExportTable\0") >= 0
        return set() if has_runtime else {name.decode() for name in LOOKED_UP.findall(data)}


if __name__ == "__main__":
    main()
