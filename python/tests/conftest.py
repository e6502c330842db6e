"""How a test says that it cannot run here, as in crates/vramscope-testing.

The reason of a skip begins with `needs` and the word for what is missing. Each skip is written to the file that
VRAMSCOPE_SKIPS names, which `./test` counts in its closing lines. In continuous integration (CI is set) only what is
listed in `.ci/may-skip` or named in VRAMSCOPE_MAY_SKIP may be missing: any other skip fails its test.
"""

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

MAY_SKIP = Path(__file__).parents[2] / ".ci/may-skip"
# The second is what `pytest.importorskip` says by itself.
NEED = re.compile(r"(?:Skipped: )?(?:needs |could not import ')([\w-]+)")
# A test of many things is named once; a program of the book, which is named by its page, each time.
WHICH = re.compile(r"\[[^/]*\]$")

Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)


def what_is_wrong(reason: str, test: str) -> str | None:
    """Writes down that `test` is skipped; where that may not be, why."""
    named = NEED.match(reason)
    if named is None:
        return f"{test} says not what it needs: {reason!r}. The reason of a skip begins with `needs` and a word"
    need = named[1]
    if file := os.environ.get("VRAMSCOPE_SKIPS"):
        with open(file, "a") as skips:
            skips.write(f"{need} {test}\n")
    listed = [line.strip() for line in MAY_SKIP.read_text().splitlines() if not line.startswith("#")]
    if not os.environ.get("CI") or need in [*listed, *os.environ.get("VRAMSCOPE_MAY_SKIP", "").split()]:
        return None
    return f"{test} cannot run: {reason}. Where that is meant, name {need} in .ci/may-skip or VRAMSCOPE_MAY_SKIP"


def judged(report: Report) -> Report:
    """Makes a failure of a skip that may not be."""
    # What was expected to fail and did has this outcome, too.
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        wrong = what_is_wrong(report.longrepr[2], WHICH.sub("", report.nodeid))
        if wrong is not None:
            report.outcome, report.longrepr = "failed", wrong
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Each part of a test."""
    return judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each file of tests, which may be skipped as a whole."""
    return judged((yield))
