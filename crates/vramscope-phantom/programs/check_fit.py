"""Check the changes that `vramscope fit` recommends against programs that were changed in their source.

    check_fit.py --vramscope target/debug/vramscope --python PYTHON

The lines that `fit` prints are put into the source of the program. A run of the result has to have the peaks that `fit` printed. The
largest batch has to be that of a linear scan. Exits with 1 if a check fails.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).parent
# The program, and the budget in MiB. With the smaller budgets only combinations fit.
TRIED = [("gpt2.py", 7800), ("gpt2.py", 3300), ("mlp.py", 850)]
# Batches of 1,000 to 8,000, and a budget in MiB in which some of them fit.
BATCHES, BUDGET = (1, 8), 1300
# The budget of another program, where blocks are in several containers.
RESNET = ("resnet50.py", 3000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    arguments = parser.parse_args()
    failed = 0
    for program, budget in [*TRIED, RESNET]:
        wrong, measured = check(arguments, program, budget)
        failed += bool(wrong)
        print(f"{measured} changes of {program} in {budget} MiB: {'; '.join(wrong) or 'hold'}", flush=True)
    wrong = check_batches(arguments)
    failed += bool(wrong)
    print(f"the largest batch in {BUDGET} MiB: {'; '.join(wrong) or 'holds'}", flush=True)
    sys.exit(failed > 0)


def vramscope(arguments, *command, **environment):
    """The JSON of a command."""
    command = [arguments.vramscope, *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env={**os.environ, **environment})
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def fit(arguments, budget, program, *options):
    budget = ["--gpu", "rtx4060", "--budget", f"{budget}MiB"]
    return vramscope(arguments, "fit", "--json", *budget, *options, "--", arguments.python, str(PROGRAMS / program))


def phantom_run(arguments, memory, program, *options, **environment):
    """The peaks of a run, and whether it fits in `memory`, in MiB."""
    card = ["--gpu", "rtx4060", "--memory", f"{memory}MiB"]
    program = [arguments.python, str(program)]
    answer = vramscope(arguments, "phantom", "run", "--json", "--once", *card, *options, "--", *program, **environment)
    device = answer["processes"][0]["devices"][0]
    return (device["peak_allocated_bytes"], device["peak_reserved_bytes"]), answer["fits"]


def check(arguments, program, budget):
    """The failed checks, in words, and the number of changes."""
    answer = fit(arguments, budget, program)
    wrong = []
    if answer["baseline"]["fits"] or not answer["fits"]:
        wrong.append(f"a change should be needed and found: {answer}")
    for change in answer["changes"]:
        expected = change["run"]["peak_allocated_bytes"], change["run"]["peak_reserved_bytes"]
        # What fits has the same peaks within the budget.
        memory = budget if change["run"]["fits"] else 1 << 20
        with tempfile.TemporaryDirectory() as folder:
            changed = pathlib.Path(folder) / program
            source, options = apply(change["lines"], (PROGRAMS / program).read_text())
            changed.write_text(source)
            peaks, fits = phantom_run(arguments, memory, changed, *options, PYTHONPATH=str(PROGRAMS))
        if peaks != expected:
            wrong.append(f"{change['name']}: {expected} from fit, {peaks} from the changed source")
        elif change["run"]["fits"] and not fits:
            wrong.append(f"{change['name']}: the changed source does not fit")
    return wrong, len(answer["changes"])


def apply(lines, source):
    """Puts the lines into a program, and returns it with options for the run."""
    options = []
    model = []
    for line in lines:
        if line.startswith("export PYTORCH_CUDA_ALLOC_CONF="):
            options = ["--conf", line.partition("=")[2]]
        elif option := re.fullmatch(r"optimizer = torch\.optim\.\w+\(\.\.\., (.*)\)", line):
            source = replace(source, r"(optimizer = torch\.optim\.\w+\(.*)\)", rf"\1, {option[1]})")
        elif name := re.fullmatch(r"optimizer = bitsandbytes\.(.*)\(\.\.\.\)", line):
            source = replace(
                source, r"(optimizer = )torch\.optim\.\w+", rf"import bitsandbytes\n    \1bitsandbytes.{name[1]}"
            )
        elif line.startswith("with torch.autograd.graph.save_on_cpu"):
            source = replace(source, r"( +)(loss = .*model\(.*)", rf"\1{line}\n\1    \2")
        elif line.startswith("optimizers = {"):
            # The program's own optimizer stays, without a step.
            made = re.search(r"optimizer = (torch\.optim\.\w+)\(model\.parameters\(\)(.*)\)", source)
            source = replace(source, r"( +)optimizer\.step\(\)\n", "")
            model.append(f"    optimizers = {{p: {made[1]}([p]{made[2]}) for p in model.parameters()}}\n")
        elif not re.fullmatch(r"    output = model\(\.\.\.\)", line):
            model.append(f"    {line}\n")
    source = replace(source, r"(    optimizer = .*\n)", lambda found: found[1] + "".join(model))
    return source, options


def replace(source, pattern, replacement):
    changed, count = re.subn(pattern, replacement, source)
    assert count == 1, (pattern, count)
    return changed


def check_batches(arguments):
    """The failed checks, in words."""
    low, high = BATCHES
    answer = fit(arguments, BUDGET, "mlp.py", "--vary", f"batch={low}..{high}", "--env", "BATCH={batch}000")
    largest = answer["vary"]["largest"]
    fits = [
        phantom_run(arguments, BUDGET, PROGRAMS / "mlp.py", BATCH=f"{batch}000")[1] for batch in range(low, high + 1)
    ]
    scanned = max((batch for batch, fits in zip(range(low, high + 1), fits) if fits), default=None)
    wrong = []
    if largest != scanned or scanned in (None, high):
        wrong.append(f"{largest} from fit, {scanned} from a scan")
    accumulated = [change for change in answer["changes"] if "gradient_accumulation" in change["changes"]]
    if not accumulated:
        return [*wrong, f"no accumulation was measured: {answer}"]
    # The program that steps after every second batch.
    source = (PROGRAMS / "mlp.py").read_text()
    source = replace(source, r"    for _ in range\(iterations\)", "    for batch_number in range(2 * iterations)")
    source = replace(
        source,
        r"        (optimizer.step.*\n) +(optimizer.*\n)",
        r"        if batch_number % 2:\n            \1            \2",
    )
    with tempfile.TemporaryDirectory() as folder:
        changed = pathlib.Path(folder) / "mlp.py"
        changed.write_text(source)
        for change in accumulated:
            expected = change["run"]["peak_allocated_bytes"]
            memory = BUDGET if change["run"]["fits"] else 1 << 20
            batch = f"{change['value']}000"
            (peak, _), _ = phantom_run(arguments, memory, changed, PYTHONPATH=str(PROGRAMS), BATCH=batch)
            if peak != expected:
                wrong.append(f"accumulation of batches of {batch}: {expected} from fit, {peak} from the changed source")
    return wrong


if __name__ == "__main__":
    main()
