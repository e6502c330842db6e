"""Check the estimates of `vramscope report --budget` against runs of the changed programs.

    check_estimates.py --vramscope target/debug/vramscope --python PYTHON [MODEL ...]

Each model of `estimates.py` is recorded unchanged, with Python stacks, as a snapshot of PyTorch. The report of the snapshot estimates the
peak of allocated bytes with each change. A run of the changed program has the real one. Where the report says that a change does not lower
the peak, the estimate is the recorded peak. Prints the errors of each change as a table, and exits with 1 if a model has an error outside
of the range that the report states, or if the stated figures are not the measured ones.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).with_name("estimates.py")
CARD = ("--once", "--gpu", "h100-80gb")
# A change whose estimate is not the recorded peak of the unchanged program but that of another one.
KEPT = {"gradients_to_none": "gradients_kept"}
# An estimate is too low if it is lower than the real peak by more than this part of it, in percent.
TOLERANCE = 1
# Reasons for no estimate that say something about the peak.
SAVES_NOTHING = "it does not lower the peak"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--jobs", type=int, default=1, help="models that are run at the same time")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    arguments = parser.parse_args()
    models = arguments.models or json.loads(python(arguments, "models"))
    errors, stated = {}, {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for model, (of_model, error_of) in zip(models, pool.map(lambda model: check(arguments, model), models)):
            stated |= error_of
            for change, error in of_model.items():
                errors.setdefault(change, []).append((error, model))
            print(f"{model}: {', '.join(f'{change} {error:+.1f} %' for change, error in of_model.items())}", flush=True)
    wrong = 0
    print("\n| change | programs | mean | lowest | highest | too low |\n|---|---|---|---|---|---|")
    for change, all in sorted(errors.items()):
        figures = figures_of([error for error, _ in all])
        print("| {} | {} | {:.1f} % | {:+.1f} % | {:+.1f} % | {} |".format(change, *figures.values()))
        expected = stated.get(change)
        if expected is None:
            continue
        if len(models) == expected["cases"] or not arguments.models:
            is_wrong = figures != expected
        else:
            is_wrong = any(
                not expected["lowest_percent"] - 0.1 <= error <= expected["highest_percent"] + 0.1 for error, _ in all
            )
        if is_wrong:
            print(f"WRONG: {change} states {expected}, measured {figures}")
            wrong += 1
    print(f"{wrong} wrong")
    sys.exit(wrong > 0)


def figures_of(errors):
    """The figures of a change, rounded as the report states them."""
    return {
        "cases": len(errors),
        "mean_absolute_percent": round(sum(map(abs, errors)) / len(errors), 1),
        "lowest_percent": round(min(errors), 1) + 0.0,
        "highest_percent": round(max(errors), 1) + 0.0,
        "too_low": sum(error < -TOLERANCE for error in errors),
    }


def check(arguments, model):
    """The error of each estimate, in percent of the real peak, and the stated figures."""
    real = json.loads(phantom(arguments, model))
    with tempfile.TemporaryDirectory() as folder:
        reports = {change: report(arguments, model, change, folder) for change in ("none", *KEPT.values())}
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


def estimate(report, change):
    """The estimated peak of a change, and the stated figures; None if the report has no estimate."""
    for row in report["changes"]:
        if row["change"] == change:
            return row["peak_allocated_bytes"], row["error"]
    saves_nothing = any(row["change"] == change and row["reason"] == SAVES_NOTHING for row in report["left_out"])
    return (report["recorded_peak_bytes"] if saves_nothing else None), None


def report(arguments, model, change, folder):
    """The estimates from a snapshot of the program."""
    snapshot = f"{folder}/{change}.pickle"
    phantom(arguments, model, change, record=("--record", snapshot))
    command = [arguments.vramscope, "report", "--json", "--budget", "1GiB", snapshot]
    return json.loads(output(command))["devices"][0]["estimates"]


def phantom(arguments, *options, record=()):
    """The program's output on a phantom GPU."""
    program = [arguments.python, str(PROGRAM), *options]
    text = output([arguments.vramscope, "phantom", "run", *CARD, *record, "--", *program])
    return text.splitlines()[0]


def python(arguments, *options):
    return output([arguments.python, str(PROGRAM), *options])


def output(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


if __name__ == "__main__":
    main()
