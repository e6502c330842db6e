"""Categories without stacks are right for nearly all bytes of programs whose every allocation has a known category.

Records the programs of `programs.py`, and those of `unseen.py`, which were written after the rules. The test `categories_without_stacks`
compares the categories that vramscope infers without stacks.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from common import ROOT

NEEDS = ("recordings",)
MINUTES = 0
IN_TEST = "by hand"

# Limits on the mean shares of wrong and unknown bytes, and on the largest wrong share of a program, in percent.
WRONG, UNKNOWN, WORST = 2, 2, 8
TEST = ["cargo", "test", "--quiet", "-p", "vramscope-analysis", "--test", "questions", "without_stacks", "--", "--nocapture"]


def options(parser):
    """Adds the options of this check."""
    parser.add_argument("--keep", type=pathlib.Path, help="keep the recordings in this folder")


def check(run):
    """Records both sets of programs, and compares the categories of each."""
    for programs in filter(run.is_chosen, ("programs", "unseen")):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(run.options.keep or folder) / programs
            folder.mkdir(parents=True, exist_ok=True)
            run.phantom(pathlib.Path(__file__).with_name(f"{programs}.py"), folder, codes=(0,))
            yield compared(programs, folder)


def compared(programs, folder):
    """The figures of a folder of recordings, and what is wrong."""
    environment = {**os.environ, "VRAMSCOPE_CATEGORIES": str(folder)}
    done = subprocess.run(TEST, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    figures = re.search(rf"^{re.escape(str(folder))}: (.*, ([\d.]+) % wrong, worst ([\d.]+) %, ([\d.]+) % unknown)", done.stderr, re.M)
    if done.returncode or not figures:
        return programs, [done.stderr[-3000:]]
    wrong, worst, unknown = map(float, figures.groups()[1:])
    is_wrong = wrong > WRONG or worst > WORST or unknown > UNKNOWN
    return f"{programs}: {figures[1]}", [f"the limits are {WRONG} %, {WORST} % and {UNKNOWN} %"] if is_wrong else []
