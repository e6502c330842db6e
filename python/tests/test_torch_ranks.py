"""vramscope.torch in programs of several ranks, with one phantom GPU per rank."""

from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, PROGRAMS, PYTHON, events, needs_torch, on_gpu

pytestmark = needs_torch

LAUNCH = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


def purposes(path: Path, rank: int) -> set[str]:
    return {event.get("user_metadata", "") for event in events(path, rank) if event["action"] == "alloc"}


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_each_rank_has_a_recording_of_its_own(how: str, tmp_path: Path) -> None:
    program = [*LAUNCH, str(PROGRAMS / "ranks.py"), how]
    plain = on_gpu(tmp_path, *program, "plain", gpus=2)
    done = on_gpu(tmp_path, COMMAND, "run", "--record", "run.pickle", "--", *program, "ours", gpus=2)
    assert (plain.returncode, done.returncode) == (0, 0), plain.stderr + done.stderr
    for rank in (0, 1):
        # The allocation count matches that of an unrecorded program. DDP's peak depends on when its threads free
        # memory.
        said = [(tmp_path / f"{name}-{rank}.txt").read_text().split() for name in ("plain", "ours")]
        assert said[0][1] == said[1][1]
        assert how == "ddp" or said[0] == said[1]
    assert sorted(path.name for path in tmp_path.glob("*.pickle")) == ["run-rank0.pickle", "run-rank1.pickle"]
    for rank in (0, 1):
        texts = purposes(tmp_path / f"run-rank{rank}.pickle", rank)
        for category in ("parameter", "gradient", "optimizer_state", "activation", "input", "temporary"):
            assert any(f"category={category}" in text for text in texts), (category, texts)
        # DDP wraps the model in another module.
        assert any(text.startswith("vramscope:category=activation;module=") for text in texts)


def test_an_out_of_memory_of_one_rank_leaves_the_recordings_of_all(tmp_path: Path) -> None:
    program = [*LAUNCH, str(PROGRAMS / "ranks.py"), "ddp", "ours", "oom"]
    done = on_gpu(tmp_path, COMMAND, "run", "--record", "run.pickle", "--", *program, gpus=2)
    assert sorted(path.name for path in tmp_path.glob("*.pickle")) == ["run-rank0.pickle", "run-rank1.pickle"]
    assert any(event["action"] == "oom" for event in events(tmp_path / "run-rank1.pickle", 1))
    assert purposes(tmp_path / "run-rank0.pickle", 0)
    lines = done.stderr.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("Out of memory: a request of 1.00 GiB"))
    end = next(number for number, line in enumerate(lines) if line.endswith("run-rank1.pickle"))
    assert 0 < end - begin < 15, done.stderr
    assert "OutOfMemoryError: CUDA out of memory" in done.stderr
