"""The findings of idle memory name the planted line, and predict the peak of the mended program.

Each program of `program.py` runs with a planted fault and with it mended. The first finding has to be at the planted line, with the planted
bytes. The peak that it predicts has to be that of the mended program.
"""

import pathlib
import tempfile

from common import MIB

PROGRAM = pathlib.Path(__file__).with_name("program.py")
SOURCE = PROGRAM.read_text().splitlines()
NEEDS = ()
MINUTES = 0
IN_TEST = "every release"

# For each program: a part of the planted line, the kind of the finding, and the most planted bytes that are idle at once.
PLANTED = {
    "kept_until_the_end_of_the_function": ("features = encoder(batch())", "freed_late", 32 * MIB),
    # Autograd's thread has no stack in Python.
    "kept_gradients": (None, "freed_late", 8 * (16 * MIB + 8192)),
    "allocated_at_the_start": ("return torch.zeros(256, BATCH * 8", "allocated_early", 32 * MIB),
    "outputs_in_a_list": ("output = model(batch())", "freed_late", 12 * 32 * MIB),
    "logits_in_single_precision": ("logits = head(hidden).float()", "freed_late", 256 * MIB),
    "optimizer_state_without_use": ("momenta.append(torch.zeros_like", "freed_late", 8 * (16 * MIB + 8192)),
    "a_mask_for_each_layer": ("torch.ones(4096, 4096", "freed_late", 6 * 64 * MIB),
    "an_activation_saved_twice": ("wide = x.float()", "freed_late", 6 * 32 * MIB),
}
# Blocks have multiples of this size.
BLOCK = 512


def check(run):
    """Tries each program; a row has its figures."""
    for name in filter(run.is_chosen, PLANTED):
        fault, mended = (recorded(run, name, kind) for kind in ("fault", "mended"))
        predicted, wrong = compared(fault, mended, *PLANTED[name])
        before, after = fault["peak_allocated_bytes"], mended["peak_allocated_bytes"]
        yield f"{name}: peak {before}, {predicted} predicted, {after} without the fault", wrong


def recorded(run, name, kind):
    """The first device in the report of a run."""
    with tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/run.vramscope"
        options = ["--gpu", "h100-80gb", "--record", recording, "--accesses"]
        run.phantom(PROGRAM, name, kind, options=options, codes=(0,))
        return run.device(recording)


def compared(fault, mended, line, kind, planted):
    """The predicted peak, and what is wrong."""
    first = next(iter(fault["idle"]["findings"]), None)
    if first is None:
        return None, ["no finding"]
    wrong = []
    named = first["line"] and SOURCE[first["line"]["line"] - 1].strip()
    is_named = line in named if line and named else not line and not named and first["category"] == "gradient"
    if not is_named:
        wrong.append(f"the line {named}, {first['category']}")
    if first["kind"] != kind:
        wrong.append(f"the kind {first['kind']}")
    if first["bytes"] != planted:
        wrong.append(f"{first['bytes']} bytes instead of {planted}")
    predicted, without = first["remaining_peak_allocated_bytes"], mended["peak_allocated_bytes"]
    if abs(predicted - without) > BLOCK:
        wrong.append(f"a peak of {without} instead of {predicted}")
    return predicted, wrong
