"""The changes that `vramscope fit` recommends have the promised peaks when they are made in the source.

The lines that `fit` prints are put into the source of the program. A run of the result has to have the peaks that `fit` printed. The
largest batch has to be that of a linear scan.
"""

import pathlib
import re
import tempfile

from common import WORKLOADS

NEEDS = ()
MINUTES = 0
IN_TEST = "every release"

# The program, and the budget in MiB. With the smaller budgets only combinations fit. In the last one, blocks are in several containers.
TRIED = [("gpt2", 7800), ("gpt2", 3300), ("mlp", 850), ("resnet50", 3000)]
# Batches of 1,000 to 8,000, and a budget in MiB in which some of them fit.
BATCHES, BUDGET = range(1, 9), 1300
ENOUGH = 1 << 20
CARD = ["--gpu", "rtx4060"]


def check(run):
    """Tries each program and budget, and the batches."""
    for program, budget in TRIED:
        if run.is_chosen(program):
            answer = fit(run, budget, program)
            yield f"{len(answer['changes'])} changes of {program} in {budget} MiB", list(changes(run, answer, budget, program))
    if run.is_chosen("batch"):
        yield f"the largest batch in {BUDGET} MiB", list(batches(run))


def fit(run, budget, program, *options):
    """The answer of `fit` for a budget in MiB."""
    budget = [*CARD, "--budget", f"{budget}MiB"]
    return run.json("fit", "--json", *budget, *options, "--", run.python, WORKLOADS / f"{program}.py")


def peaks(run, memory, program, *options, **environment):
    """The peaks of allocated and reserved bytes of a run, and whether it fits in `memory`, in MiB."""
    card = ["--json", *CARD, "--memory", f"{memory}MiB", *options]
    words = ["phantom", "run", "--once", *card, "--", run.python, program]
    answer = run.json(*words, **environment)
    device = answer["processes"][0]["devices"][0]
    return (device["peak_allocated_bytes"], device["peak_reserved_bytes"]), answer["fits"]


def changed(run, name, source, memory, *options, **environment):
    """`peaks` of a program with another source."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / f"{name}.py"
        program.write_text(source)
        return peaks(run, memory, program, *options, **environment)


def changes(run, answer, budget, name):
    """What is wrong with the changes of an answer."""
    if answer["baseline"]["fits"] or not answer["fits"]:
        yield f"a change should be needed and found: {answer}"
    for change in answer["changes"]:
        expected = change["run"]["peak_allocated_bytes"], change["run"]["peak_reserved_bytes"]
        # What fits has the same peaks within the budget.
        memory = budget if change["run"]["fits"] else ENOUGH
        source, options = applied(change["lines"], (WORKLOADS / f"{name}.py").read_text())
        measured, fits = changed(run, name, source, memory, *options)
        if measured != expected:
            yield f"{change['name']}: {expected} from fit, {measured} from the changed source"
        elif change["run"]["fits"] and not fits:
            yield f"{change['name']}: the changed source does not fit"


def applied(lines, source):
    """Puts the lines into a program, and returns it with options for the run."""
    options = []
    model = []
    for line in lines:
        if line.startswith("export PYTORCH_CUDA_ALLOC_CONF="):
            options = ["--conf", line.partition("=")[2]]
        elif option := re.fullmatch(r"optimizer = torch\.optim\.\w+\(\.\.\., (.*)\)", line):
            source = replaced(source, r"(optimizer = torch\.optim\.\w+\(.*)\)", rf"\1, {option[1]})")
        elif name := re.fullmatch(r"optimizer = bitsandbytes\.(.*)\(\.\.\.\)", line):
            pattern = r"(optimizer = )torch\.optim\.\w+"
            source = replaced(source, pattern, rf"import bitsandbytes\n    \1bitsandbytes.{name[1]}")
        elif line.startswith("with torch.autograd.graph.save_on_cpu"):
            source = replaced(source, r"( +)(loss = .*model\(.*)", rf"\1{line}\n\1    \2")
        elif line.startswith("optimizers = {"):
            # The program's own optimizer stays, without a step.
            made = re.search(r"optimizer = (torch\.optim\.\w+)\(model\.parameters\(\)(.*)\)", source)
            source = replaced(source, r"( +)optimizer\.step\(\)\n", "")
            model.append(f"    optimizers = {{p: {made[1]}([p]{made[2]}) for p in model.parameters()}}\n")
        elif not re.fullmatch(r"    output = model\(\.\.\.\)", line):
            model.append(f"    {line}\n")
    source = replaced(source, r"(    optimizer = .*\n)", lambda found: found[1] + "".join(model))
    return source, options


def replaced(source, pattern, replacement):
    """The source with the only match of a pattern replaced."""
    source, count = re.subn(pattern, replacement, source)
    assert count == 1, (pattern, count)
    return source


def batches(run):
    """What is wrong with the largest batch, and with the accumulation of smaller ones."""
    vary = ["--vary", f"batch={BATCHES[0]}..{BATCHES[-1]}", "--env", "BATCH={batch}000"]
    answer = fit(run, BUDGET, "mlp", *vary)
    largest = answer["vary"]["largest"]
    fitting = [batch for batch in BATCHES if peaks(run, BUDGET, WORKLOADS / "mlp.py", BATCH=f"{batch}000")[1]]
    scanned = max(fitting, default=None)
    if largest != scanned or scanned in (None, BATCHES[-1]):
        yield f"{largest} from fit, {scanned} from a scan"
    accumulated = [change for change in answer["changes"] if "gradient_accumulation" in change["changes"]]
    if not accumulated:
        yield f"no accumulation was measured: {answer}"
    # The program that steps after every second batch.
    source = (WORKLOADS / "mlp.py").read_text()
    source = replaced(source, r"    for _ in range\(iterations\)", "    for batch_number in range(2 * iterations)")
    pattern = r"        (optimizer.step.*\n) +(optimizer.*\n)"
    source = replaced(source, pattern, r"        if batch_number % 2:\n            \1            \2")
    for change in accumulated:
        expected = change["run"]["peak_allocated_bytes"]
        batch = f"{change['value']}000"
        (peak, _), _ = changed(run, "mlp", source, BUDGET if change["run"]["fits"] else ENOUGH, BATCH=batch)
        if peak != expected:
            yield f"accumulation of batches of {batch}: {expected} from fit, {peak} from the changed source"
