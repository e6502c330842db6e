"""What vramscope.torch says of each allocation, beside tags that are made independently (torch_programs/tagged.py)."""

import json
from pathlib import Path

import pytest
from torch_on_phantom import PROGRAMS, PYTHON, can_import, needs_torch, on_gpu

pytestmark = needs_torch

TRAINING = [
    "mlp-adam", "mlp-adam-late", "mlp-sgd-keepgrads", "mlp-amp", "gan-adam",
    "gpt-adamw", "gpt-adamw-late", "gpt-part", "resnet50-sgd", "lora-adamw",
]  # fmt: skip
# Of features.py; of their recordings the peak alone is compared.
FEATURES = [
    "checkpoint-reentrant", "checkpoint", "checkpoint-sequential", "autograd-grad", "inference", "autocast",
    "own-function", "accumulation", "retain-graph", "save-on-cpu", "closure", "steps-in-backward", "own-hooks",
]  # fmt: skip


@pytest.mark.parametrize("name", TRAINING + FEATURES)
def test_categories_and_modules_are_those_of_independent_tags(name: str, tmp_path: Path) -> None:
    if name.startswith("lora") and not can_import("peft", "transformers"):
        pytest.skip("needs peft and transformers: ./test --torch 2.11.0")
    told = {}
    for how in ("ours", "independent"):
        done = on_gpu(tmp_path, PYTHON, str(PROGRAMS / "tagged.py"), name, how, f"{how}.json")
        assert done.returncode == 0, done.stderr
        told[how] = json.loads((tmp_path / f"{how}.json").read_text())
    ours, theirs = told["ours"]["allocations"], told["independent"]["allocations"]
    peak = told["ours"]["peak"]
    # The program asks for the same memory whoever looks on.
    assert peak == told["independent"]["peak"]
    assert [size for size, _, _ in ours] == [size for size, _, _ in theirs]

    def share(column: int, numbers: list[int]) -> float:
        agreed = sum(ours[number][0] for number in numbers if ours[number][column] == theirs[number][column])
        return agreed / sum(ours[number][0] for number in numbers)

    for numbers in [peak] if name in FEATURES else [peak, list(range(len(ours)))]:
        assert share(1, numbers) >= 0.99, "categories"
        assert share(2, numbers) >= 0.99, "modules"
