"""Check the findings of idle memory against the programs of idle.py, each with a planted fault and with it mended.

    check_idle.py --vramscope target/debug/vramscope --python PYTHON

The first finding has to be at the planted line, with the planted bytes. The peak that it predicts has to be that of the
mended program. Exits with 1 if a check fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).parent / "idle.py"
SOURCE = PROGRAM.read_text().splitlines()
MIB = 1 << 20
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    arguments = parser.parse_args()
    failed = 0
    for name in PLANTED:
        wrong, told = check(arguments, name)
        failed += bool(wrong)
        print(f"{name}: {'; '.join(wrong) or 'holds'}; {told}", flush=True)
    sys.exit(failed > 0)


def report(arguments, name, kind):
    """The first device in the report of a run."""
    with tempfile.TemporaryDirectory() as folder:
        recording = pathlib.Path(folder) / "run.vramscope"
        run = ["phantom", "run", "--once", "--gpu", "h100-80gb", "--record", str(recording), "--accesses"]
        program = [arguments.python, str(PROGRAM), name, kind]
        done = subprocess.run([arguments.vramscope, *run, "--", *program], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr + done.stdout
        command = [arguments.vramscope, "report", "--json", str(recording)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)["devices"][0]


def check(arguments, name):
    """The failed checks, and the figures."""
    fault, mended = (report(arguments, name, kind) for kind in ("fault", "mended"))
    (line, kind, planted), peak = PLANTED[name], fault["peak_allocated_bytes"]
    first = next(iter(fault["idle"]["findings"]), None)
    if first is None:
        return ["no finding"], f"peak {peak}"
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
    return wrong, f"peak {peak}, {predicted} predicted, {without} without the fault"


if __name__ == "__main__":
    main()
