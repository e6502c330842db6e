"""The estimates of `report --budget` are as exact as the report states, for the changes of 19 models.

Each model of `program.py` is recorded unchanged, with Python stacks, as a snapshot of PyTorch. The report of the snapshot estimates the
peak of allocated bytes with each change. A run of the changed program has the real one. Where the report says that a change does not lower
the peak, the estimate is the recorded peak. Prints the errors of each change as a table. An error outside of the stated range is wrong, and
so are stated figures that are not the measured ones.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import tempfile

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ("transformers", "peft", "bitsandbytes")
MINUTES = 0
IN_TEST = "by hand"

CARD = ("--gpu", "h100-80gb")
# A change whose estimate is not the recorded peak of the unchanged program but that of another one.
KEPT = {"gradients_to_none": "gradients_kept"}
# An estimate is too low if it is lower than the real peak by more than this part of it, in percent.
TOLERANCE = 1
# Reasons for no estimate that say something about the peak.
SAVES_NOTHING = "it does not lower the peak"


def options(parser):
    """Adds the options of this check."""
    parser.add_argument("--jobs", type=int, default=1, help="models that are run at the same time")


def check(run):
    """Measures the selected models; then a row for each change."""
    printed = subprocess.run([run.python, PROGRAM, "models"], capture_output=True, text=True, check=True, env=run.environment())
    models = json.loads(printed.stdout)
    chosen = list(filter(run.is_chosen, models))
    errors, stated = {}, {}
    with concurrent.futures.ThreadPoolExecutor(run.options.jobs) as pool:
        for model, (of_model, error_of) in zip(chosen, pool.map(lambda model: measured(run, model), chosen)):
            stated |= error_of
            for change, error in of_model.items():
                errors.setdefault(change, []).append(error)
            yield f"{model}: {', '.join(f'{change} {error:+.1f} %' for change, error in of_model.items())}", []
    print("\n| change | programs | mean | lowest | highest | too low |\n|---|---|---|---|---|---|")
    for change, all in sorted(errors.items()):
        figures, expected = figures_of(all), stated.get(change)
        if expected is None:
            is_wrong = False
        elif len(chosen) == expected["cases"] or chosen == models:
            is_wrong = figures != expected
        else:
            low, high = expected["lowest_percent"] - 0.1, expected["highest_percent"] + 0.1
            is_wrong = any(not low <= error <= high for error in all)
        row = "| {} | {} | {:.1f} % | {:+.1f} % | {:+.1f} % | {} |".format(change, *figures.values())
        yield row, [f"the report states {expected}, measured {figures}"] if is_wrong else []


def measured(run, model):
    """The error of each estimate, in percent of the real peak, and the stated figures."""
    real = json.loads(on_phantom(run, model))
    with tempfile.TemporaryDirectory() as folder:
        reports = {change: report(run, model, change, folder) for change in ("none", *KEPT.values())}
    errors, stated = {}, {}
    for change in [*real, *KEPT]:
        estimated, error = estimate(reports[KEPT.get(change, "none")], change)
        if estimated is None:
            continue
        peak = real["none" if change in KEPT else change]
        errors[change] = 100 * (estimated / peak - 1)
        if error:
            stated[change] = error
    return errors, stated


def report(run, model, change, folder):
    """The estimates from a snapshot of the program."""
    snapshot = f"{folder}/{change}.pickle"
    on_phantom(run, model, change, record=("--record", snapshot))
    return run.device(snapshot, "--budget", "1GiB")["estimates"]


def on_phantom(run, *arguments, record=()):
    """The first line that the program prints on a phantom GPU."""
    return run.phantom(PROGRAM, *arguments, options=(*CARD, *record)).stdout.splitlines()[0]


def estimate(report, change):
    """The estimated peak of a change, and the stated figures; None if the report has no estimate."""
    for row in report["changes"]:
        if row["change"] == change:
            return row["peak_allocated_bytes"], row["error"]
    saves_nothing = any(row["change"] == change and row["reason"] == SAVES_NOTHING for row in report["left_out"])
    return (report["recorded_peak_bytes"] if saves_nothing else None), None


def figures_of(errors):
    """The figures of a change, rounded as the report states them."""
    return {
        "cases": len(errors),
        "mean_absolute_percent": round(sum(map(abs, errors)) / len(errors), 1),
        "lowest_percent": round(min(errors), 1) + 0.0,
        "highest_percent": round(max(errors), 1) + 0.0,
        "too_low": sum(error < -TOLERANCE for error in errors),
    }
