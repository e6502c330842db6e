#!/usr/bin/env python3
"""Runs acceptance checks: real PyTorch programs on phantom GPUs, compared with what vramscope says about them.

    acceptance/run.py --list
    acceptance/run.py [--python PYTHON] [--vramscope COMMAND] NAME... [--only TEXT...]
    acceptance/run.py NAME --help

Prints a line for each case, and `WRONG` lines below those that fail. Exit code 1: a case failed. 2: a check cannot run here.
README.md in this folder says how to add a check.
"""

import argparse
import os
import shutil
import sys
import time
import traceback

from common import FOLDER, ROOT, TRUTH, Failed, Run, loaded

# Needs that are not modules of the Python with PyTorch: whether they are present, and how to provide them.
NEEDS = {
    "recordings": (TRUTH.exists, "the larger recordings, see CONTRIBUTING.md"),
    "package": (lambda: any(ROOT.glob("python/vramscope/_native.abi3.*")), "the Python package: ./test --python"),
    "cc": (lambda: shutil.which("cc") is not None, "a C compiler"),
    "cargo": (lambda: shutil.which("cargo") is not None, "cargo"),
    "nm": (lambda: shutil.which("nm") is not None, "binutils"),
}


def main():
    """Runs the named checks."""
    names = sorted(path.parent.name for path in FOLDER.glob("*/check.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--list", action="store_true", help="list the checks with their needs and processor minutes")
    parser.add_argument("--test", action="store_true", help="all checks that `./test --torch` runs with this release of PyTorch")
    parser.add_argument("--vramscope", default=str(ROOT / "target/debug/vramscope"), help="the command (default: the debug build)")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="only the cases whose name contains one of these")
    words = sys.argv[1:]
    # A single check may have options of its own.
    own = [word for word in words if word in names]
    check = loaded(own[0]) if len(own) == 1 else None
    if hasattr(check, "options"):
        check.options(parser.add_argument_group(f"options of {own[0]}"))
    options = parser.parse_args(words)
    if options.list:
        return list_all(names)
    run = Run(options.vramscope, options.python, options.only, options)
    if options.test:
        options.names = [name for name in names if is_in_test(loaded(name), run.release)]
    if unknown := sorted(set(options.names) - set(names)):
        parser.error(f"no check is named {', '.join(unknown)}; there are {', '.join(names)}")
    if not options.names:
        parser.error("name a check, or --list")
    return max(one(name, loaded(name), run, options.test) for name in options.names)


def list_all(names):
    """Prints a line for each check: its name, its processor minutes, when it runs, its subject, and its needs."""
    print(f"{'check':<15}{'minutes':>8}  {'in ./test --torch':<18}  subject (needs beside PyTorch)")
    for name in names:
        check = loaded(name)
        subject = check.__doc__.splitlines()[0].rstrip(".")
        needs = f" ({', '.join(check.NEEDS)})" if check.NEEDS else ""
        minutes = "unknown" if check.MINUTES is None else check.MINUTES
        print(f"{name:<15}{minutes:>8}  {check.IN_TEST:<18}  {subject}{needs}")
    return 0


def is_in_test(check, release):
    """Whether `./test --torch` runs a check with a release of PyTorch."""
    return check.IN_TEST == "every release" or release.startswith(check.IN_TEST + ".")


def one(name, check, run, is_test):
    """Runs a check; returns the exit code."""
    for need in ("torch", *check.NEEDS):
        is_present, what = NEEDS.get(need, (lambda need=need: run.has(need), f"the module {need} for {run.python}"))
        if not is_present():
            print(f"{name}: cannot run, because it needs {what}", flush=True)
            return skipped(name, need) if is_test else 2
    print(f"{name}: {check.__doc__.splitlines()[0]}", flush=True)
    begun, worked, cases, failed = time.monotonic(), processor_seconds(), 0, 0
    try:
        for text, wrong in check.check(run):
            cases, failed = cases + 1, failed + bool(wrong)
            print(f"  {text}", flush=True)
            for words in wrong:
                print(f"    WRONG: {words}", flush=True)
    except Failed as error:
        failed += 1
        print(f"    WRONG: {error}", flush=True)
    except Exception:
        failed += 1
        traceback.print_exc()
    minutes, worked = (time.monotonic() - begun) / 60, (processor_seconds() - worked) / 60
    print(f"{name}: {failed or 'no'} failures in {cases} cases, {minutes:.1f} minutes ({worked:.1f} of processors)", flush=True)
    # A selection without cases is a mistake.
    return int(failed > 0) if cases or failed else 2


def processor_seconds():
    """Processor time of all programs that have ended, in seconds."""
    times = os.times()
    return times.children_user + times.children_system


def skipped(name, need):
    """Notes a skipped check for the last lines of `./test`; returns the exit code."""
    if file := os.environ.get("VRAMSCOPE_SKIPS"):
        with open(file, "a") as skips:
            skips.write(f"{need} acceptance/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
