"""A pytest plugin: GPU memory limits for tests, a table at the end, and a baseline to compare with.

pytest loads it in every environment where vramscope is installed. It imports PyTorch only if a test uses it.

    @pytest.mark.limit_vram("2 GiB")                 limits the test's peak above the bytes allocated at its start
    @pytest.mark.limit_vram_leaks("1 MiB")           limits the bytes that the test leaves allocated
    pytest --vramscope                               prints a table of the tests with the highest peaks
    pytest --vramscope-baseline vram.json            fails tests whose peaks exceed the peaks in the file
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: Properties of a test report, which reach junit files and xdist's controller.
_PEAK, _KEPT, _BLOCKS = "vramscope_peak_bytes", "vramscope_kept_bytes", "vramscope_allocations"


class _Use(NamedTuple):
    """A test's memory use: peak above its start, bytes left allocated, and number of allocated blocks."""

    peak: int
    kept: int
    blocks: int


def parse_size(size: str | int) -> int:
    """Parses `"2 GiB"`, `"500 MB"` or a number of bytes. Raises `ValueError` for anything else."""
    if isinstance(size, int):
        return size
    # Imported late: most runs of pytest set no limits.
    from vramscope import _native

    try:
        return _native.parse_bytes(size)
    except ValueError as error:
        raise ValueError(f"{size!r} is not a size: {error}") from None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("vramscope", "GPU memory")
    group.addoption("--vramscope", action="store_true", help="print a table of each test's GPU memory at the end")
    group.addoption("--vramscope-top", type=int, default=20, metavar="N", help="rows of the table (default: 20)")
    group.addoption("--vramscope-baseline", metavar="FILE", help="fail tests whose peaks exceed those in FILE (JSON)")
    group.addoption("--vramscope-update-baseline", action="store_true", help="write the baseline instead")
    group.addoption(
        "--vramscope-tolerance", type=float, default=5.0, metavar="PERCENT", help="above the baseline (default: 5)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers and reads the baseline."""
    config.addinivalue_line(
        "markers", 'limit_vram(size, device=None): fails if it allocates more GPU memory than size, such as "2 GiB"'
    )
    config.addinivalue_line(
        "markers", "limit_vram_leaks(size=0, device=None): fails if it leaves more GPU memory than size allocated"
    )
    config.stash[_baseline_key] = {}
    path, updates = config.getoption("vramscope_baseline"), config.getoption("vramscope_update_baseline")
    if updates and not path:
        raise pytest.UsageError("--vramscope-update-baseline needs --vramscope-baseline FILE, the file to write")
    if path and not updates:
        try:
            tests = json.loads(Path(path).read_text(encoding="utf-8"))["tests"]
            config.stash[_baseline_key] = {name: int(test["peak_bytes"]) for name, test in tests.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise pytest.UsageError(f"{path} is not a baseline of --vramscope-update-baseline: {error}") from error


#: The baseline's peak in bytes per test name.
_baseline_key = pytest.StashKey[dict[str, int]]()


class _Limit(NamedTuple):
    """A marker's limit: bytes on a device; None means the current device."""

    marker: str
    size: int
    device: Any


def limit_vram(size: str | int, device: Any = None) -> tuple[int, Any]:
    """The arguments of the `limit_vram` marker."""
    return parse_size(size), device


def limit_vram_leaks(size: str | int = 0, device: Any = None) -> tuple[int, Any]:
    """The arguments of the `limit_vram_leaks` marker."""
    return parse_size(size), device


def _limits(item: pytest.Item) -> list[_Limit]:
    """Returns the limits of a test. A malformed marker fails the test."""
    limits = []
    for takes in (limit_vram, limit_vram_leaks):
        marker = item.get_closest_marker(takes.__name__)
        if marker is None:
            continue
        try:
            limits.append(_Limit(marker.name, *takes(*marker.args, **marker.kwargs)))
        except (TypeError, ValueError) as error:
            pytest.fail(f"{marker.name}: {error}", pytrace=False)
    return limits


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measures a test and enforces its limits."""
    config = item.config
    limits = _limits(item)
    if not limits and not config.getoption("vramscope") and not config.getoption("vramscope_baseline"):
        return (yield)
    measurements = {limit.device: _Measurement(limit.device) for limit in limits} or {None: _Measurement(None)}
    if _cuda_has_begun():
        _let_go_of_tests_before()
    for measurement in measurements.values():
        measurement.begin()
    try:
        result = yield
    finally:
        if any(limit.marker == "limit_vram_leaks" for limit in limits):
            gc.collect()
        uses = {device: measurement.end() for device, measurement in measurements.items()}
        first = next(iter(uses.values()))
        if first is not None:
            item.user_properties += [(_PEAK, first.peak), (_KEPT, first.kept), (_BLOCKS, first.blocks)]
    for limit in limits:
        use = uses[limit.device]
        if use is not None and limit.marker == "limit_vram":
            _hold(limit.marker, "rose", use.peak, limit.size)
        elif use is not None:
            _hold(limit.marker, "left", use.kept, limit.size)
    before = config.stash[_baseline_key].get(item.nodeid)
    if first is not None and before is not None:
        allowed = int(before * (1 + config.getoption("vramscope_tolerance") / 100))
        _hold(f"the baseline of {_in_words(before)}", "rose", first.peak, allowed)
    return result


def _hold(what: str, did: str, size: int, allowed: int) -> None:
    if size > allowed:
        above = "above its start" if did == "rose" else "allocated"
        said = f"{what}: the test {did} {_in_words(size)} {above}; the limit is {_in_words(allowed)}"
        pytest.fail(said, pytrace=False)


def _in_words(size: int) -> str:
    from vramscope.profiler import format_bytes

    return format_bytes(size)


def _cuda_has_begun() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _let_go_of_tests_before() -> None:
    """Collects garbage of earlier tests, so that this test's numbers do not include their frees.

    These names keep the frames of the last failed test alive; pytest deletes them next anyway.
    """
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    gc.collect()


class _Measurement:
    """Measures one test without affecting other scopes. It never initializes CUDA itself."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._scope: Any = None

    def _source(self) -> Any:
        if not _cuda_has_begun():
            return None
        from vramscope.profiler import TorchSource

        return TorchSource(self._device)

    def begin(self) -> None:
        """Opens the scope if CUDA is initialized."""
        from vramscope.profiler import PeakBook

        source = self._source()
        if source is not None:
            self._book = PeakBook.of(source)
            self._scope = self._book.open()

    def end(self) -> _Use | None:
        """Returns the test's memory use; `None` without CUDA."""
        if self._scope is not None:
            now = self._book.close(self._scope)
            start, peak = self._scope.start, self._scope.peaks.allocated
            blocks = now.num_allocations - start.num_allocations
            return _Use(max(0, peak - start.allocated), now.allocated - start.allocated, blocks)
        source = self._source()
        if source is None:
            return None
        # CUDA was initialized during this test, so its counters cover only this test.
        now = source.read()
        return _Use(now.peaks.allocated, now.allocated, now.num_allocations or 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the table and writes the new baseline."""
    rows: dict[str, _Use] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", None) == "call" and _PEAK in properties:
                rows[report.nodeid] = _Use(properties[_PEAK], properties[_KEPT], properties[_BLOCKS])
    path = config.getoption("vramscope_baseline")
    if path and config.getoption("vramscope_update_baseline"):
        tests = {name: {"peak_bytes": use.peak, "kept_bytes": use.kept} for name, use in sorted(rows.items())}
        from vramscope._files import write_text

        write_text(path, json.dumps({"tests": tests}, indent=2) + "\n")
        terminalreporter.write_line(f"wrote {len(tests)} tests to {path}")
    if not config.getoption("vramscope"):
        return
    terminalreporter.write_sep("=", "GPU memory")
    if not rows:
        terminalreporter.write_line("no test used CUDA")
        return
    highest = sorted(rows.items(), key=lambda row: (-row[1].peak, row[0]))
    terminalreporter.write_line(f"{'peak':>12}  {'kept':>12}  {'allocations':>11}  test")
    for name, use in highest[: config.getoption("vramscope_top")]:
        peak, kept = _in_words(use.peak), _in_words(use.kept)
        terminalreporter.write_line(f"{peak:>12}  {kept:>12}  {use.blocks:>11}  {name}")
