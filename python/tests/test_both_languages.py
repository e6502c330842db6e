"""The programs of crates/vramscope/tests/both_languages.json have one output, in Rust and in Python."""

import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from vramscope import GPUMemoryProfiler, _native
from vramscope.cupy import LineProfileHook
from vramscope.function_hooks import CupyMemoryProfileHook
from vramscope.function_hooks._counters import Taken
from vramscope.profiler import MemorySource, Reading

FOLDER = Path(__file__).parents[2] / "crates/vramscope/tests"
CASES = json.loads((FOLDER / "both_languages.json").read_text())
EXPECTED = json.loads((FOLDER / "both_languages.snap.json").read_text())


class Program(MemorySource):
    """Runs a program on a simulated pool, which is the source of all numbers."""

    def __init__(self) -> None:
        self.pool = _native.VirtualPool(_native.VirtualDevice(1 << 30))
        self.blocks: dict[str, list[int]] = defaultdict(list)
        self.stack: list[str] = []
        self.taken = Taken(0, 0)
        self.lines = LineProfileHook()
        self.functions = CupyMemoryProfileHook(max_calls=10)
        self.functions._counters = self  # type: ignore[assignment]
        self.profiler = GPUMemoryProfiler(source=self)

    def read(self) -> Reading:
        return Reading(allocated=self.pool.used_bytes(), reserved=self.pool.total_bytes())

    def now(self) -> Taken:
        return self.taken

    def malloc(self, name: str, size: int) -> None:
        before = self.read()
        self.blocks[name].append(self.pool.malloc(size))
        now = self.read()
        used, acquired = now.allocated - before.allocated, now.reserved - before.reserved
        self.taken = Taken(self.taken.used + used, self.taken.acquired + acquired)
        frames = [dict(zip(("filename", "line", "name"), place.split(":", 2), strict=True)) for place in self.stack]
        event = {"time_us": 0, "frames": [{**frame, "line": int(frame["line"])} for frame in reversed(frames)]}
        events = [{**event, "action": "alloc", "size": used}, {**event, "action": "segment_alloc", "size": acquired}]
        self.lines.count_history(events, 0)

    def run(self, steps: list[list[Any]]) -> None:
        for what, name, *rest in steps:
            if what == "malloc":
                self.malloc(name, *rest)
            elif what == "free":
                self.pool.free(self.blocks[name].pop())
            elif what == "repeat":
                for _ in range(int(name)):
                    self.run(*rest)
            elif what == "line":
                self.stack.append(name)
                self.run(*rest)
                self.stack.pop()
            else:
                self.call(name, *rest)

    def call(self, name: str, steps: list[list[Any]]) -> None:
        def function() -> None:
            self.run(steps)

        function.__qualname__ = name
        with self.profiler.profile_context(name):
            self.functions.profile(function)()

    def table(self, unit: Any) -> list[str]:
        file = io.StringIO()
        self.functions.print_report(unit, file)
        return file.getvalue().splitlines()

    def output(self) -> dict[str, Any]:
        tree = io.StringIO()
        self.lines.print_report(tree)
        return {
            "lines": tree.getvalue().splitlines(),
            "calls": [list(call) for call in self.functions.call_history],
            "totals": [self.functions.total_used_bytes(), self.functions.total_acquired_bytes()],
            "leaks": [{**suspect.to_dict(), "floor": list(suspect.floor)} for suspect in self.profiler.leaks()],
        }


def of(key: str) -> Any:
    return pytest.mark.parametrize(("case", "expected"), list(zip(CASES[key], EXPECTED[key], strict=True)))


@of("programs")
def test_a_program_has_the_output_of_rust(case: dict[str, Any], expected: dict[str, Any]) -> None:
    program = Program()
    program.run(case["steps"])
    output = {"name": case["name"], **program.output()}
    if not case["calls_nest"]:
        output["tables"] = [program.table(unit) for unit in ("auto", "auto_foreach", "KB")]
    assert output == expected


@of("alerts")
def test_values_raise_the_alerts_of_rust(case: dict[str, Any], expected: list[Any]) -> None:
    rules = _native.Alerts(60.0)
    values = enumerate(case["values"])
    assert [case["name"], [rules.update("x", value, case["above"], 100.0 + i) for i, value in values]] == expected


@of("growth")
def test_growth_is_that_of_rust(case: dict[str, Any], expected: list[Any]) -> None:
    rules = _native.Alerts(60.0)
    start, each = case["allocated"]["start"], case["allocated"]["each_second"]
    assert [case["name"], [rules.growth(start + each * i, 100.0 + i) for i in range(62)][59:]] == expected
