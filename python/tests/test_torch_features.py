"""A recording does not change a program's behavior (torch_programs/features.py)."""

import json
from pathlib import Path

import pytest
from torch_on_phantom import PROGRAMS, PYTHON, needs_torch, on_gpu

pytestmark = needs_torch

FEATURES = [
    "checkpoint-reentrant", "checkpoint", "checkpoint-sequential", "compile-eager", "compile-aot-eager",
    "compile-fullgraph", "compile-inductor", "func-grad-vmap", "func-derivatives", "func-compiled",
    "func-refuses-hooks", "double-backward", "autograd-grad", "inference", "autocast", "cuda-graphs", "jit-script",
    "jit-trace", "own-function", "accumulation", "retain-graph", "save-on-cpu", "save-on-cpu-outside", "anomaly",
    "closure", "steps-in-backward", "own-hooks", "dispatch-mode", "failed-backward", "failed-recomputation", "copied",
    "checkpoint-to-Linear", "checkpoint-to-LayerNorm", "checkpoint-to-RMSNorm", "checkpoint-to-BatchNorm",
    "checkpoint-to-GroupNorm", "checkpoint-to-Dropout",
]  # fmt: skip


@pytest.mark.parametrize("name", FEATURES)
def test_a_recording_does_not_change_the_behavior_of_a_program(name: str, tmp_path: Path) -> None:
    told = {}
    # Compile twice, because the second run uses the compiler's cache.
    for how in ["plain"] * (1 + (name == "compile-inductor")) + ["ours"]:
        done = on_gpu(
            tmp_path, PYTHON, str(PROGRAMS / "unchanged.py"), name, how, f"{how}.json",
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
        )  # fmt: skip
        assert (tmp_path / f"{how}.json").exists(), done.stderr
        told[how] = json.loads((tmp_path / f"{how}.json").read_text())
    if name in ("func-grad-vmap", "failed-backward"):
        # With threads, the peak depends on timing even without a recording.
        told["ours"]["memory"].pop("allocated_bytes.all.peak")
        told["plain"]["memory"].pop("allocated_bytes.all.peak")
    if name == "compile-inductor":
        # The compiler's own allocations depend on its caches.
        for memory in (told["ours"]["memory"], told["plain"]["memory"]):
            del memory["allocation.all.allocated"], memory["allocated_bytes.all.allocated"]
    assert told["ours"]["memory"] == told["plain"]["memory"]
    assert told["ours"]["result"] == told["plain"]["result"]


def test_every_program_is_run() -> None:
    text = (PROGRAMS / "features.py").read_text()
    table = text[text.index("PROGRAMS: dict") :]
    plain = [name for name in FEATURES if not name.startswith("checkpoint-to-")]
    assert [name for name in plain if f'"{name}":' not in table] == []
