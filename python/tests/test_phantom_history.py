"""The part of PyTorch's history that a program sees under `vramscope phantom run`, with and without a limit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def history() -> ModuleType:
    """The module that the command copies to the program."""
    file = Path(__file__).parents[2] / "crates/vramscope-fit/src/phantom/history.py"
    spec = importlib.util.spec_from_file_location("phantom_history", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Memory:
    """A stand-in for `torch.cuda.memory` with a ring of events, as PyTorch's."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.max_entries = 0
        self.count = 0

    def _record_memory_history(
        self,
        enabled: Any = "all",  # noqa: ARG002
        context: Any = "all",  # noqa: ARG002
        stacks: Any = "all",  # noqa: ARG002
        max_entries: int = 99,
    ) -> None:
        self.max_entries = max_entries

    _record_memory_history_impl = _record_memory_history

    def add(self, action: str) -> None:
        self.count += 1
        self.events = [*self.events, {"action": action, "time_us": self.count}][-self.max_entries :]

    def _snapshot(self) -> dict[str, Any]:
        snapshot = {"device_traces": [list(self.events), []], "external_annotations": []}
        self.add("snapshot")
        return snapshot


@pytest.mark.parametrize(
    ("kept", "asked", "expected"),
    [
        (1000, 99, ["alloc 3", "alloc 4", "alloc 5", "alloc 6"]),
        (1000, 2, ["alloc 5", "alloc 6"]),
        # With a limit, the run dropped events before the program's part, or also of the part.
        (6, 99, ["alloc 3", "alloc 4", "alloc 5", "alloc 6"]),
        (5, 99, ["alloc 3", "alloc 4", "alloc 5", "alloc 6"]),
        (4, 99, ["alloc 3", "alloc 4", "alloc 5", "alloc 6"]),
        (3, 99, ["alloc 4", "alloc 5", "alloc 6"]),
        (1, 99, ["alloc 6"]),
    ],
)
def test_a_program_gets_its_part(kept: int, asked: int, expected: list[str]) -> None:
    memory = Memory()
    torch = SimpleNamespace(cuda=SimpleNamespace(memory=memory), __version__="2.12.0")
    shared = history().SharedHistory(torch, kept)
    shared.start()
    for i in (0, 1, 2):
        memory.add(f"alloc {i}")
    assert torch.cuda.memory._snapshot()["device_traces"] == [[], []]
    memory._record_memory_history(max_entries=asked)
    for i in (3, 4, 5, 6):
        memory.add(f"alloc {i}")
    part, unused = torch.cuda.memory._snapshot()["device_traces"]
    assert [event["action"] for event in part] == expected
    assert unused == []
    assert memory.max_entries == kept


def test_a_full_history_may_have_dropped_events() -> None:
    memory = Memory()
    torch = SimpleNamespace(cuda=SimpleNamespace(memory=memory), __version__="2.12.0")
    shared = history().SharedHistory(torch, 3)
    shared.start()
    for count in (1, 2, 3, 4):
        memory.add("alloc")
        assert shared.may_have_dropped({"device_traces": [[], list(memory.events)]}) == (count >= 3)
