"""Saves and loads results as JSON, in the format of gpumemprof's `save_results`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vramscope import _arguments, _native
from vramscope._files import write_text
from vramscope.profiler._result import ProfileResult
from vramscope.profiler._snapshot import MemorySnapshot

if TYPE_CHECKING:
    from os import PathLike

    from vramscope.profiler._profiler import GPUMemoryProfiler


@dataclass
class SavedResults:
    """A profiler's summary, results and monitoring snapshots.

    It also reads files of gpumemprof, of stormlog and of the Rust profiler.
    """

    summary: dict[str, Any]
    results: list[ProfileResult]
    snapshots: list[MemorySnapshot] = field(default_factory=list)

    @classmethod
    def of(cls, profiler: GPUMemoryProfiler) -> SavedResults:
        """Collects the current state of a profiler."""
        return cls(profiler.get_summary(), list(profiler.results), list(profiler.snapshots))

    def to_dict(self) -> dict[str, Any]:
        """Returns the file's object: `summary`, `results`, `snapshots`."""
        return {
            "summary": self.summary,
            "results": [result.to_dict() for result in self.results],
            "snapshots": [snapshot.to_dict() for snapshot in self.snapshots],
        }

    def write(self, path: str | PathLike[str]) -> None:
        """Writes a file."""
        write_text(_arguments.path("path", path), json.dumps(self.to_dict(), indent=2))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> SavedResults:
        """Reads a file. Raises `vramscope.ReadError` with the path of the first wrong value."""
        with open(_arguments.path("path", path), encoding="utf-8") as file:
            text = file.read()
        _native.check_saved_results(text)
        data = json.loads(text)
        return cls(
            summary=data["summary"],
            results=[ProfileResult.from_dict(result) for result in data["results"]],
            snapshots=[MemorySnapshot.from_dict(snapshot) for snapshot in data.get("snapshots", [])],
        )
