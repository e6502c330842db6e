"""Makes choices by measured time the same in each run on a phantom GPU, where no kernel takes time.

VRAMSCOPE_CHOICES says which candidate is taken: the first, or the last. The choices are facts of the process, with the program's lines.
"""

import functools
import os

from vramscope_follow import program_line

# By line and kind, how often a choice was made.
MADE = {}


def takes_last():
    return os.environ.get("VRAMSCOPE_CHOICES") == "last"


def note(kind):
    key = (program_line(), kind)
    MADE[key] = MADE.get(key, 0) + 1


def facts():
    """Returns the choices that were made."""
    return [{"line": line, "kind": kind, "count": count} for (line, kind), count in MADE.items()]


def without_caches():
    """Lets Inductor compile each graph anew: a cached graph contains the choices of another run."""
    for name in ("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"):
        os.environ[name] = "0"


def padding(pad_mm):
    """Decides whether Inductor pads the operands of matrix products: the first candidate is without padding."""
    if not hasattr(pad_mm, "is_padded_faster"):
        return

    def is_padded_faster(*arguments, **options):
        note("paddings of matrix products")
        return takes_last()

    pad_mm.is_padded_faster = is_padded_faster
    pad_mm.get_cached_should_pad = lambda key: None
    pad_mm.set_cached_should_pad = lambda key, value: None


def algorithms(select_algorithm):
    """Decides which of several kernels Inductor takes with max-autotune."""
    cache = select_algorithm.AlgorithmSelectorCache
    call = cache.__call__

    @functools.wraps(call)
    def chosen(self, name, choices, *arguments, **options):
        if len(choices) > 1:
            note("kernels with max-autotune")
            choices = [choices[-1 if takes_last() else 0]]
        return call(self, name, choices, *arguments, **options)

    cache.__call__ = chosen


def configurations(autotuner):
    """Decides which configuration Triton's autotuner takes for a kernel."""
    prune = autotuner.Autotuner.prune_configs

    @functools.wraps(prune)
    def chosen(self, *arguments, **options):
        configurations = list(prune(self, *arguments, **options))
        if len(configurations) > 1:
            note("configurations of Triton's autotuner")
            configurations = [configurations[-1 if takes_last() else 0]]
        return configurations

    autotuner.Autotuner.prune_configs = chosen
