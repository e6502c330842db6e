"""Runs programs on phantom GPUs, which count memory and compute nothing: on Linux, without a GPU.

The arguments and the answers are those of the commands `vramscope phantom run` and `vramscope fit`. Sizes are bytes, or
texts such as "24GiB". The program's output goes to standard error, or nowhere if it runs once per change.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from vramscope import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vramscope import answers

__all__ = ["run"]


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    gpu: str = "h100-80gb",
    memory: int | str | None = None,
    context: int | str | None = None,
    gpus: int = 1,
    steps_timeout: float | None = None,
    values: str = "zeros",
    cudnn: str | os.PathLike[str] | None = None,
    routing: str | None = None,
    gpu_speed: str | None = None,
    world_size: int | None = None,
    rank: int | None = None,
    record: str | os.PathLike[str] | None = None,
    force: bool = False,
    accesses: bool = False,
    max_entries: int | None = None,
    conf: str | None = None,
    no_contents: bool = False,
    sweep_gpus: bool = False,
    once: bool = False,
    progress: Callable[[str], object] | None = None,
) -> answers.PhantomRun:
    """Runs a program on phantom GPUs, and returns whether it fits.

    Args:
        command: The program and its arguments, as `[sys.executable, "train.py"]`.
        gpu: The GPU, by its name in `vramscope phantom list`.
        memory: The memory of the GPU, if it differs from the GPU's own.
        context: The device memory of a CUDA context, likewise.
        gpus: The number of GPUs.
        steps_timeout: The seconds after which each run of the program gets SIGTERM. The steps until then are enough.
        values: The values that the program reads from memory that no kernel wrote: zeros, or random=SEED.
        cudnn: Another cuDNN that tells the sizes of its workspaces, if the program's own is older than 9.8.
        routing: What choices by unknown values select: balanced, nothing or one. Small known values are then
            computed on the host. None: this is done in further runs, if the program reads computed values.
        gpu_speed: When the GPU has done its work: instant, or late, when the program waits for it. None: instant,
            and in a further run late, if PyTorch's allocator keeps freed memory for other streams.
        world_size: The number of ranks, of which one runs and the others are simulated.
        rank: The rank that runs.
        record: The file of the recording: a pickle, or a log if its name ends in .vramscope. `%t` in the name
            stands for the time.
        force: Whether an existing recording is replaced.
        accesses: Whether a log is recorded with the allocations that kernels and copies access.
        max_entries: The number of newest events that are kept for each GPU. None: all.
        conf: Settings of PyTorch's allocator, in the syntax of PYTORCH_CUDA_ALLOC_CONF.
        no_contents: Whether copies to a GPU above 64 KiB are not stored.
        sweep_gpus: Whether all GPUs are compared.
        once: Whether the program runs only once.
        progress: A function that is called with each line of progress, such as `print`.

    Raises:
        VramscopeError: The program cannot be started, or failed for another reason than memory.
        ValueError: An argument is invalid, such as an unknown GPU.
        KeyboardInterrupt: Ctrl-C, which ends the program.
    """
    options = _options(locals())
    return _native.phantom_run(*options, progress)


def fit(
    command: Sequence[str | os.PathLike[str]],
    *,
    gpu: str = "h100-80gb",
    memory: int | str | None = None,
    context: int | str | None = None,
    gpus: int = 1,
    steps_timeout: float | None = None,
    values: str = "zeros",
    cudnn: str | os.PathLike[str] | None = None,
    routing: str | None = None,
    gpu_speed: str | None = None,
    budget: int | str | None = None,
    vary: str | None = None,
    env: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    cards: int | None = None,
    recordings: str | os.PathLike[str] | None = None,
    force: bool = False,
    jobs: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> answers.Fit:
    """Finds changes with which a program fits in GPU memory. The program runs once per change.

    Args:
        command: The program and its arguments, as `[sys.executable, "train.py"]`.
        gpu: As for `vramscope.phantom.run`, and so are `memory`, `context`, `gpus`, `steps_timeout`, `values`, `cudnn`,
            `routing` and `gpu_speed`.
        memory: See `gpu`.
        context: See `gpu`.
        gpus: See `gpu`.
        steps_timeout: See `gpu`.
        values: See `gpu`.
        cudnn: See `gpu`.
        routing: See `gpu`.
        gpu_speed: See `gpu`.
        budget: The device memory that the program may use, with its CUDA context. None: all of the GPU's.
        vary: A number in the program's arguments, as `batch=1..256`. The largest that fits is searched for `{batch}`.
        env: Environment variables of the program.
        only: The only changes to measure, as `["activation_checkpointing"]`. Empty: all.
        cards: The number of cards over which the model is also sharded.
        recordings: The folder that gets the recording of each run. A name that exists gets a number.
        force: Whether existing recordings are replaced.
        jobs: The number of runs at the same time. None: as many as the machine can take.
        progress: As for `vramscope.phantom.run`.

    Raises:
        VramscopeError: The unchanged program failed for another reason than memory, or used no GPU.
        ValueError: An argument is invalid, such as an unknown GPU.
        KeyboardInterrupt: Ctrl-C, which ends the search.
    """
    options = _options({**locals(), "env": [f"{name}={value}" for name, value in (env or {}).items()]})
    return _native.fit(*options, progress)


def _options(given: dict[str, Any]) -> tuple[list[str], str]:
    """Returns the program and its arguments, and the other arguments as JSON."""
    if not hasattr(_native, "fit"):
        raise _native.VramscopeError("phantom GPUs are available only on Linux")
    command, record = given.pop("command"), given.get("record")
    if isinstance(command, str):
        raise TypeError("command is a list of a program and its arguments, not a text")
    if record is not None and not os.fspath(record).endswith(".vramscope") and _native.names_another_format(record):
        raise ValueError(f"{record}: a recording is a pickle, or a log: end its name in .pickle or .vramscope")
    del given["progress"]
    given = {name: list(value) if name == "only" else value for name, value in given.items()}
    return [os.fspath(part) for part in command], json.dumps(given, default=os.fspath)
