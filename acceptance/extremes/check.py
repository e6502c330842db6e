"""A peak is exact only if the extremes of what a phantom GPU cannot know agree.

Each program runs as a user would run it. Ordinary programs stay exact. Those whose memory depends on computed values or on the GPU's
speed get a range, with the line. Programs that need known values run to their end.
"""

import json
import pathlib

from common import MIB

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ()
MINUTES = 8
IN_TEST = "every release"

# What a verdict contains: the kind of the number, and a part of its reasons.
EXPECTED = {
    "experts": ("between", "reads what"),
    "mask": ("between", "reads the result of aten::gt"),
    "side_stream": ("between", "several streams"),
    "resumed_adamw": ("exact", None),
    "batched_cache": ("exact", None),
    "packed_lengths": ("exact", None),
    "equal_to_one": ("exact", None),
    "endless": ("at_least", "--steps-timeout"),
}
ORDINARY = (
    "mlp", "encoder", "causal_lm", "lora", "gan", "vae", "autoencoder", "contrastive", "q_learning", "diffusion", "accumulation", "scaler",
    "checkpointing", "moving_average", "momentum", "graph_network", "retrieval", "distillation", "inference", "offloading",
)


def check(run):
    """A row for each program."""
    for name in ORDINARY:
        yield from row(run, name, "exact", None)
    for name, (kind, reason) in EXPECTED.items():
        yield from row(run, name, kind, reason)
    if run.is_chosen("random"):
        yield "random values stay within the shape of the input", bounded(run)


def row(run, name, kind, reason):
    """The verdict on a program."""
    if not run.is_chosen(name):
        return
    options = ["--steps-timeout", "8"] if name == "endless" else []
    answer = run.json("phantom", "run", "--json", "--gpu", "a100-80gb", *options, "--", run.python, PROGRAM, name)
    certainty = answer["certainty"]
    low, high = certainty["low_bytes"] / MIB, (certainty["high_bytes"] or 0) / MIB
    texts = "; ".join(dict.fromkeys(each["text"] for each in certainty["basis"] if each["effect"] != "none"))
    wrong = [] if certainty["kind"] == kind else [f"expected {kind}: {certainty}"]
    wrong += [f"the reasons lack {reason!r}: {texts}"] if reason and reason not in texts else []
    wrong += ["an unknown end fits"] if kind == "at_least" and answer["fits"] else []
    yield f"{name:<16}{certainty['kind']:<10}{low:8.0f}{high:8.0f} MiB  {texts}", wrong


def bounded(run):
    """`nonzero` of random values."""
    done = run.phantom(PROGRAM, "nonzero", options=["--values", "random=1", "--routing", "balanced"])
    sizes = json.loads(done.stdout.splitlines()[0])
    return [] if sizes == [50, 2] else [f"{sizes} rows and columns of 10 x 10"]
