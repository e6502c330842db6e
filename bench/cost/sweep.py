#!/usr/bin/env python3
"""Measures how the cost of each command, and of each question of the page, grows with each count of a recording.

    bench/cost/sweep.py [INPUT ...] [--binary BINARY] [--against BINARY] [--only QUESTION] [--seconds N] [-o TABLE]

Makes recordings of which one count doubles (inputs.py), runs all commands and questions on them, and prints for each input the
largest growth of processor time and of peak memory for a doubling, both without those of the smallest recording. The limit is 2.3: time and
memory are linear in the bytes of the input. Costs below 0.06 seconds and 32 MiB are not compared. A growth above the limit is measured
again before it counts. BINARY is a build of the command (default: target/checkout/vramscope); one `--against` it gives a second table. The
exit code is 1 if a growth is above the limit.
"""

import argparse
import json
import math
import multiprocessing
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import inputs
import page

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 2.3
#: Costs that are too small to compare: processor seconds and MiB.
LEAST = (0.06, 32)
FORMATS = ("chrome", "pprof", "folded", "flamegraph", "parquet", "pickle", "log")
TABLES = ("events", "allocations", "segments", "holders")

COMMANDS = {
    "info": ["info", "{file}", "--json"],
    "report": ["report", "{file}"],
    "report --json": ["report", "{file}", "--json"],
    "report of an interval": ["report", "{file}", "--at", "0..1000"],
    "replay": ["replay", "{file}"],
    "replay --json": ["replay", "{file}", "--json"],
    "replay on a smaller device": ["replay", "{file}", "--capacity", "64MiB"],
    "replay of a setting": ["replay", "{file}", "--conf", "expandable_segments:True"],
    "plan": ["plan", "{file}"],
    "check": ["check", "{file}", "--max-peak", "1GiB", "--no-leaks", "--no-oom", "--baseline", "{file}"],
    "diff": ["diff", "{file}", "{file}"],
    "diff --json": ["diff", "{small}", "{file}", "--json"],
    "diff of a changed program": ["diff", "{file}", "{other}"],
    "fleet": ["fleet", "{file}", "--no-cache"],
    "convert": ["convert", "{file}", "{out}/converted.pickle"],
    "split": ["split", "{file}", "-o", "{out}/parts", "--events", "{quarter}"],
    "page in one file": ["view", "{file}", "--html", "{out}/page.html"],
    **{f"export {format}": ["export", "{file}", "--format", format, "-o", "{out}/export"] for format in FORMATS},
    **{f"export csv {table}": ["export", "{file}", "--format", "csv", "--what", table, "-o", "{out}/export"] for table in TABLES},
}


def in_a_child(work, *arguments):
    """Runs a function in a process of its own: the peak of a child includes the memory of the process that starts it."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=lambda: results.put(work(*arguments)))
    child.start()
    result = results.get()
    child.join()
    return result


def cost_of(command, seconds):
    """Processor seconds and peak MiB of one process; infinite if it takes longer or is killed."""

    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limits)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = 0
    if os.WIFSIGNALED(status):
        return math.inf, math.inf
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def parts_of(binary, file, small):
    """What the arguments of the commands name."""
    facts = subprocess.run([binary, "info", file, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600)
    events = [d["events"] for d in json.loads(facts.stdout)["devices"]] if facts.returncode == 0 else []
    other = file.with_suffix(".changed.pickle")
    return {"file": file, "small": small, "other": other if other.exists() else file, "quarter": max(events, default=0) // 4 + 1}


def costs(binary, files, small, only, seconds):
    """Costs of all commands and questions, by name: a list with one for each file."""
    found = {}
    asked = {name: command for name, command in COMMANDS.items() if not only or name in only}
    # The smallest recording gives the cost of the process.
    for file in [small, *files]:
        named = parts_of(binary, file, small)
        for name, command in asked.items():
            row = found.setdefault(name, [])
            if row and row[-1] and row[-1][0] == math.inf:
                continue
            with tempfile.TemporaryDirectory() as out:
                row.append(cost_of([binary, *(part.format(out=out, **named) for part in command)], seconds))
        if not only or any(name.startswith("page:") for name in only):
            for name, cost in (page.measured(binary, file, seconds) if file.is_file() else {}).items():
                found.setdefault(f"page: {name}", []).append(cost)
    return found


def growth(row):
    """The largest growth of a cost for one doubling, of each part; `None` if it is too small to compare."""
    if len(row) < 2 or row[0] is None:
        return None, None
    found = []
    for part, least in enumerate(LEAST):
        above = [max(cost[part] - row[0][part], 0) if cost else 0 for cost in row[1:]]
        pairs = [(a, b) for a, b in zip(above, above[1:], strict=False) if b >= least]
        if math.inf in above:
            found.append(math.inf)
        else:
            found.append(max((b / max(a, least / 4) for a, b in pairs), default=None))
    return tuple(found)


def is_above(found):
    return any(value is not None and value > LIMIT for value in found)


def swept(binary, name, a, folder):
    """The growth and the largest costs of each question for one input."""
    make, least = inputs.INPUTS[name]
    small = in_a_child(inputs.pairs, folder, 10)
    files = []
    for doubling in range(a.doublings + 1):
        into = pathlib.Path(folder) / str(doubling)
        into.mkdir()
        files.append(in_a_child(make, into, max(int(least * a.scale), 1) << doubling))
        if files[-1].suffix == ".pickle":
            in_a_child(inputs.changed, files[-1])
    rows = costs(binary, files, small, a.only, a.seconds)
    for _ in range(2):
        again = {question for question, row in rows.items() if is_above(growth(row)) and math.inf not in [c[0] for c in row if c]}
        if not again:
            break
        for question, row in costs(binary, files, small, again, a.seconds).items():
            before = rows[question] if question in again else None
            if before and len(before) == len(row):
                rows[question] = [min(x, y) if x and y else x for x, y in zip(before, row, strict=True)]
    size = files[-1].stat().st_size if files[-1].is_file() else sum(f.stat().st_size for f in files[-1].iterdir())
    return size, {question: (growth(row), row[-1]) for question, row in rows.items()}


def shown(value, unit=""):
    if value is None:
        return "."
    return "over" if value == math.inf else f"{value:.2f}{unit}"


def table(binary, a):
    """Prints one line for each input. Returns whether all are within the limit."""
    within = True
    lines = ["| input | bytes | time | question | memory | question | above the limit |", "|---|---|---|---|---|---|---|"]
    for name in a.inputs or inputs.INPUTS:
        with tempfile.TemporaryDirectory() as folder:
            size, results = swept(binary, name, a, folder)
        worst = []
        for part in (0, 1):
            known = {q: g[part] for q, (g, _) in results.items() if g[part] is not None}
            question = max(known, key=known.get, default=None)
            worst += [shown(known.get(question)), question or ""]
        above = [q for q, (g, _) in results.items() if is_above(g)]
        within = within and not above
        told = [f"{q} ({shown(g[0])}, {shown(g[1])}; {shown(cost[0] if cost else None, ' s')})" for q, (g, cost) in results.items() if q in above]
        lines.append(f"| {name} | {size:,} | {' | '.join(worst)} | {', '.join(told)} |")
        print(lines[-1], flush=True)
    if a.output:
        with open(a.output, "a") as f:
            f.write(f"{binary}\n\n" + "\n".join(lines) + "\n\n")
    return within


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("inputs", nargs="*", metavar="INPUT", help=f"of {', '.join(inputs.INPUTS)} (default: all)")
    ap.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/checkout/vramscope")
    ap.add_argument("--against", type=pathlib.Path)
    ap.add_argument("--only", action="append", metavar="QUESTION", help="a command as in the table; `page:` for the questions of the page")
    ap.add_argument("--seconds", type=int, default=30, help="processor seconds after which a command is ended")
    ap.add_argument("--doublings", type=int, default=2)
    ap.add_argument("--scale", type=float, default=1.0, help="factor for all counts")
    ap.add_argument("-o", "--output", type=pathlib.Path)
    a = ap.parse_args()
    if not shutil.which(str(a.binary)):
        sys.exit(f"no build of the command at {a.binary}")
    within = [table(binary, a) for binary in (a.against, a.binary) if binary]
    sys.exit(0 if within[-1] else 1)


if __name__ == "__main__":
    main()
