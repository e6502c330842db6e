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


# In later steps of these, hooks rest.
LONG = {"mlp-adam": 16, "mlp-sgd-keepgrads": 16, "gan-adam": 16, "gpt-adamw": 16, "lora-adamw": 16, "irregular": 90}


def both(name: str, folder: Path, steps: int) -> tuple[dict, dict]:
    """What vramscope says, and what the independent tags say."""
    if name.startswith("lora") and not can_import("peft", "transformers"):
        pytest.skip("needs peft and transformers: ./test --torch 2.11.0")
    told = []
    for how in ("ours", "independent"):
        done = on_gpu(folder, PYTHON, str(PROGRAMS / "tagged.py"), name, how, f"{how}.json", STEPS=str(steps))
        assert done.returncode == 0, done.stderr
        told.append(json.loads((folder / f"{how}.json").read_text()))
    ours, theirs = told
    # The program asks for the same memory whoever looks on.
    assert ours["peak"] == theirs["peak"]
    assert [size for size, _, _ in ours["allocations"]] == [size for size, _, _ in theirs["allocations"]]
    return ours, theirs


def assert_equal(ours: dict, theirs: dict) -> None:
    """At least 99 % of the bytes at the peak, and of all that was allocated, have the same category and module."""

    def share(column: int, numbers: list[int]) -> float:
        pairs = [(ours["allocations"][number], theirs["allocations"][number]) for number in numbers]
        return sum(one[0] for one, other in pairs if one[column] == other[column]) / sum(one[0] for one, _ in pairs)

    for numbers in (ours["peak"], list(range(len(ours["allocations"])))):
        assert share(1, numbers) >= 0.99, "categories"
        assert share(2, numbers) >= 0.99, "modules"


@pytest.mark.parametrize("name", TRAINING)
def test_categories_and_modules_are_those_of_independent_tags(name: str, tmp_path: Path) -> None:
    assert_equal(*both(name, tmp_path, 4))


@pytest.mark.parametrize(("name", "steps"), LONG.items())
def test_steps_without_hooks_are_told_by_those_that_were_watched(name: str, steps: int, tmp_path: Path) -> None:
    ours, theirs = both(name, tmp_path, steps)
    assert ours["resting"] >= steps // 4
    assert_equal(ours, theirs)


def test_what_a_surprise_in_a_step_without_hooks_is_for_is_not_guessed(tmp_path: Path) -> None:
    ours, theirs = both("surprise", tmp_path, 90)
    said = [
        (one, other)
        for one, other in zip(ours["allocations"], theirs["allocations"], strict=True)
        if one[1] is not None
    ]
    assert 0.9 * len(ours["allocations"]) < len(said) < len(ours["allocations"])
    assert all(one == other for one, other in said)
