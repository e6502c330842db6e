"""Reports skipped tests, as crates/vramscope-testing does.

A skip reason must begin with `needs` and the name of the missing thing. Each skip is written to the file named by
VRAMSCOPE_SKIPS, and `./test` counts them in its closing lines. In continuous integration (CI is set), a skip fails its
test unless `.ci/may-skip` or VRAMSCOPE_MAY_SKIP lists the missing thing.
"""

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

MAY_SKIP = Path(__file__).parents[2] / ".ci/may-skip"
# The second form comes from `pytest.importorskip`.
NEED = re.compile(r"(?:Skipped: )?(?:needs |could not import ')([\w-]+)")
# Parametrized tests are listed once, but programs of the book, named by their page, each.
WHICH = re.compile(r"\[[^/]*\]$")

Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)


def what_is_wrong(reason: str, test: str) -> str | None:
    """Records that `test` is skipped; returns an error text if that is not allowed."""
    named = NEED.match(reason)
    if named is None:
        return f"{test} does not say what it needs: {reason!r}. A skip reason must begin with `needs` and a word"
    need = named[1]
    if file := os.environ.get("VRAMSCOPE_SKIPS"):
        with open(file, "a") as skips:
            skips.write(f"{need} {test}\n")
    listed = [line.strip() for line in MAY_SKIP.read_text().splitlines() if not line.startswith("#")]
    if not os.environ.get("CI") or need in [*listed, *os.environ.get("VRAMSCOPE_MAY_SKIP", "").split()]:
        return None
    return f"{test} cannot run: {reason}. To allow this, list {need} in .ci/may-skip or VRAMSCOPE_MAY_SKIP"


def judged(report: Report) -> Report:
    """Turns a disallowed skip into a failure."""
    # Expected failures also have the outcome `skipped`.
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        wrong = what_is_wrong(report.longrepr[2], WHICH.sub("", report.nodeid))
        if wrong is not None:
            report.outcome, report.longrepr = "failed", wrong
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Checks each phase of a test."""
    return judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Checks each test file, which may be skipped as a whole."""
    return judged((yield))
