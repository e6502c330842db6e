"""Compares the categories of vramscope.torch with independently created tags (torch_programs/tagged.py)."""

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest
from torch_on_phantom import PROGRAMS, PYTHON, can_import, events, needs_torch, on_gpu, python

pytestmark = needs_torch

TRAINING = [
    "mlp-adam", "mlp-adam-late", "mlp-sgd-keepgrads", "mlp-amp", "gan-adam",
    "gpt-adamw", "gpt-adamw-late", "gpt-part", "resnet50-sgd", "lora-adamw",
]  # fmt: skip
# Programs in features.py; only the peak of their recordings is compared.
FEATURES = [
    "checkpoint-reentrant", "checkpoint", "checkpoint-sequential", "autograd-grad", "inference", "autocast",
    "own-function", "accumulation", "retain-graph", "save-on-cpu", "closure", "steps-in-backward", "own-hooks",
]  # fmt: skip


# Programs with more steps, because hooks pause in later steps.
LONG = {"mlp-adam": 16, "mlp-sgd-keepgrads": 16, "gan-adam": 16, "gpt-adamw": 16, "lora-adamw": 16, "irregular": 90}


def both(name: str, folder: Path, steps: int, how: str = "ours") -> tuple[dict, dict]:
    """Returns vramscope's categories and the independent tags."""
    if name.startswith("lora") and not can_import("peft", "transformers"):
        pytest.skip("needs peft and transformers: ./test --torch 2.11.0")
    told = []
    for observer in (how, "independent"):
        file = f"{observer}.json"
        done = on_gpu(folder, PYTHON, str(PROGRAMS / "tagged.py"), name, observer, file, STEPS=str(steps))
        assert done.returncode == 0, done.stderr
        told.append(json.loads((folder / file).read_text()))
    ours, theirs = told
    # The program makes the same requests under both observers. A log has the sizes of blocks.
    assert len(ours["allocations"]) == len(theirs["allocations"])
    if how == "ours":
        assert ours["peak"] == theirs["peak"]
        assert [size for size, _, _ in ours["allocations"]] == [size for size, _, _ in theirs["allocations"]]
    return ours, theirs


def assert_equal(ours: dict, theirs: dict, at_peak_alone: bool = False) -> None:
    """At least 99 % of the bytes at the peak, and of all allocated bytes, have the same category and module."""

    def share(column: int, numbers: Sequence[int]) -> float:
        pairs = [(ours["allocations"][number], theirs["allocations"][number]) for number in numbers]
        return sum(one[0] for one, other in pairs if one[column] == other[column]) / sum(one[0] for one, _ in pairs)

    for numbers in (ours["peak"], ours["peak"] if at_peak_alone else range(len(ours["allocations"]))):
        assert share(1, numbers) >= 0.99, "categories"
        assert share(2, numbers) >= 0.99, "modules"


@pytest.mark.parametrize("name", TRAINING)
def test_categories_and_modules_are_those_of_independent_tags(name: str, tmp_path: Path) -> None:
    assert_equal(*both(name, tmp_path, 4))


@pytest.mark.parametrize("name", FEATURES)
def test_programs_with_features_of_pytorch_have_the_tagged_categories(name: str, tmp_path: Path) -> None:
    assert_equal(*both(name, tmp_path, 4), at_peak_alone=True)


@pytest.mark.parametrize(("name", "steps"), [*((name, 4) for name in TRAINING + FEATURES), *LONG.items()])
def test_a_log_has_the_same_categories_and_modules(name: str, steps: int, tmp_path: Path) -> None:
    ours, theirs = both(name, tmp_path, steps, "log")
    ours["peak"] = theirs["peak"]
    assert_equal(ours, theirs, at_peak_alone=name in FEATURES)


@pytest.mark.parametrize(("name", "steps"), LONG.items())
def test_steps_without_hooks_have_the_categories_of_watched_steps(name: str, steps: int, tmp_path: Path) -> None:
    ours, theirs = both(name, tmp_path, steps)
    assert ours["resting"] >= steps // 4
    assert_equal(ours, theirs)


def test_unexpected_allocations_in_a_step_without_hooks_have_no_category(tmp_path: Path) -> None:
    ours, theirs = both("surprise", tmp_path, 90)
    said = [
        (one, other)
        for one, other in zip(ours["allocations"], theirs["allocations"], strict=True)
        if one[1] is not None
    ]
    assert 0.9 * len(ours["allocations"]) < len(said) < len(ours["allocations"])
    assert all(one == other for one, other in said)


def test_memory_that_a_checkpoint_retains_for_backward_is_an_activation(tmp_path: Path) -> None:
    program = """
        import torch, vramscope.torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(4))

            def forward(self, x):
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return x

        model = Net().cuda()
        with vramscope.torch.record("run.pickle", model=model):
            for _ in range(8):
                model(torch.randn(96, 512, device="cuda")).square().mean().backward()
    """
    done = python(tmp_path, dedent(program))
    assert done.returncode == 0, done.stderr
    results = [
        event["user_metadata"]
        for event in events(tmp_path / "run.pickle")
        if event["action"] == "alloc" and event["size"] == 96 * 512 * 4 and "forward" in event["user_metadata"]
    ]
    kept = [text for text in results if text.startswith("vramscope:category=activation")]
    # Each step retains the results of the four blocks; tensors inside a block are recomputed in backward.
    assert len(kept) == 8 * 4
    assert {text.split("module=")[1].split(";")[0] for text in kept} == {f"blocks.{number}.1" for number in range(4)}


def test_a_loaded_optimizer_state_is_known_before_the_first_step(tmp_path: Path) -> None:
    program = """
        import torch, vramscope.torch
        from torch import nn

        model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(8, 512, device="cuda")).sum().backward()
        optimizer.step()
        torch.save(optimizer.state_dict(), "states.pt")
        del optimizer
        with vramscope.torch.record("run.pickle"):
            optimizer = torch.optim.AdamW(model.parameters())
            optimizer.load_state_dict(torch.load("states.pt"))
            model(torch.randn(8, 512, device="cuda")).sum().backward()
    """
    done = python(tmp_path, dedent(program))
    assert done.returncode == 0, done.stderr
    states = [
        event["user_metadata"]
        for event in events(tmp_path / "run.pickle")
        if event["action"] == "alloc" and event["user_metadata"].startswith("vramscope:category=optimizer_state")
    ]
    assert len(states) == 8
