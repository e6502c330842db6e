"""The list of cases, how they run, and helpers that count bytes."""

import faulthandler
import gc
import importlib.util
import sys
import traceback

import torch

# Seconds after which a case counts as hanging: the program prints its stack and exits.
PATIENCE = 300

CASES = []


def case(function=None, *, needs=()):
    """Registers a function as a case, which fails if it raises. The case is skipped if a module in `needs` is missing."""
    if function is None:
        return lambda function: case(function, needs=needs)
    CASES.append((function, needs))
    return function


def run(subjects):
    """Runs the cases of the modules with these names; returns the number of failures."""
    count = failed = 0
    for function, needs in CASES:
        name = f"{function.__module__}.{function.__name__}"
        if function.__module__ not in subjects:
            continue
        missing = [module for module in needs if importlib.util.find_spec(module) is None]
        if missing:
            print(f"skipped {name}: {', '.join(missing)} is not installed", flush=True)
            count += 1
            continue
        clean()
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            function()
        except Exception:
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
            failed += 1
        else:
            print(f"ok {name}", flush=True)
        count += 1
        faulthandler.cancel_dump_traceback_later()
    print(f"{count} cases ran", flush=True)
    return failed


def clean():
    """Frees the memory of the previous case, so that each case counts only its own bytes."""
    torch.compiler.reset()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def bytes_of(tensors):
    """Bytes that these tensors request from the allocator."""
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


class Held:
    """Counts the requested bytes since its creation, without cuBLAS workspaces."""

    def __init__(self):
        self.before = requested()

    def more(self):
        return requested() - self.before


def requested():
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def main(subjects):
    known = sorted({function.__module__ for function, _ in CASES})
    wrong = set(subjects) - set(known)
    if wrong:
        sys.exit(f"no cases for {', '.join(sorted(wrong))}; subjects: {', '.join(known)}")
    sys.exit(run(subjects) > 0)
