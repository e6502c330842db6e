"""`vramscope fit` of real PyTorch programs, and of programs that it cannot change. See also `acceptance/run.py fit`."""

import json
import os
import subprocess
from pathlib import Path
from textwrap import indent

from torch_on_phantom import COMMAND, HERE, PYTHON, needs_torch

pytestmark = needs_torch

MIB = 1 << 20

MODEL = """
import os, sys, torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
TRAIN = """
def train(model, batch=2048):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.zeros(batch, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def run(folder: Path, program: str, *command: str) -> subprocess.CompletedProcess:
    """Runs `vramscope ARGUMENTS -- PYTHON program.py`; `command` ends with the arguments of the program behind `--`."""
    (folder / "program.py").write_text(program)
    cut = command.index("--") if "--" in command else len(command)
    return subprocess.run(
        [COMMAND, *command[:cut], "--", PYTHON, "program.py", *command[cut + 1 :]],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def fit(folder: Path, program: str, *options: str, budget: int = 600) -> dict:
    done = run(
        folder,
        program,
        "fit",
        "--json",
        "--gpu",
        "rtx4060",
        "--context",
        "100MiB",
        "--budget",
        f"{budget}MiB",
        *options,
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def reasons(answer: dict) -> dict[str, str]:
    return {dropped["name"]: dropped["reason"] for dropped in answer["dropped"]}


def test_a_forked_process_that_trains_is_recorded_and_changed(tmp_path: Path) -> None:
    fork = """
if os.fork() == 0:
    train(Model().cuda())
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    plain = fit(tmp_path, MODEL + TRAIN + "train(Model().cuda())", "--only", "activation_checkpointing")
    forked = fit(tmp_path, MODEL + TRAIN + fork, "--only", "activation_checkpointing")
    assert forked["baseline"] == plain["baseline"]
    assert forked["changes"][0]["run"] == plain["changes"][0]["run"]
    assert forked["baseline"]["peak_allocated_bytes"] > 300 * MIB


def test_a_program_of_multiprocessing_is_recorded(tmp_path: Path) -> None:
    program = (
        "import multiprocessing"
        + MODEL
        + TRAIN
        + """
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=lambda: train(Model().cuda()))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
    )
    answer = fit(tmp_path, program, "--only", "fused_optimizer")
    assert answer["baseline"]["peak_allocated_bytes"] > 300 * MIB
    assert answer["baseline"]["steps"] == 3


def test_a_program_without_modules(tmp_path: Path) -> None:
    program = """
import torch
weights = torch.zeros(4096, 4096, device="cuda", requires_grad=True)
optimizer = torch.optim.AdamW([weights])
for _ in range(3):
    (weights @ weights).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    answer = fit(tmp_path, program, "--only", "fused_optimizer,activation_checkpointing", budget=300)
    assert reasons(answer)["changes to the model"] == "no module has the optimizer's parameters"
    assert answer["model"] is None
    assert answer["baseline"]["peak_allocated_bytes"] > 300 * MIB


def test_a_change_with_which_the_program_fails_is_dropped_with_its_error(tmp_path: Path) -> None:
    program = MODEL.replace(
        "        for block in",
        "        if torch.is_autocast_enabled('cuda'):\n"
        "            raise RuntimeError('this model needs float32')\n"
        "        for block in",
    )
    answer = fit(tmp_path, program + TRAIN + "train(Model().cuda())", "--only", "autocast_bfloat16,fused_optimizer")
    expected = "the program failed: RuntimeError: this model needs float32"
    assert reasons(answer)["autocast to bfloat16"] == expected
    assert answer["deterministic"] is True
    # It was repeated alone, and the other changes were measured.
    assert [change["changes"] for change in answer["changes"]] == [["fused_optimizer"]]


def test_a_program_that_is_not_deterministic(tmp_path: Path) -> None:
    program = (
        MODEL
        + TRAIN
        + "train(Model().cuda(), 2048 + 256 * int(open('runs', 'a').tell() or 0)); open('runs', 'a').write('x')"
    )
    done = run(
        tmp_path, program, "fit", "--gpu", "rtx4060", "--budget", "700MiB", "--jobs", "1", "--only", "allocator_conf",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "The program is not deterministic: a second unchanged run needs " in done.stdout


def test_a_program_that_ignores_the_number(tmp_path: Path) -> None:
    answer = fit(
        tmp_path, MODEL + TRAIN + "train(Model().cuda())", "--only", "allocator_conf", "--vary", "batch=1..64",
        "--", "--batch", "{batch}",
    )  # fmt: skip
    assert answer["vary"]["ignored"] is True
    assert answer["vary"]["largest"] is None


def test_sharded_over_cards_as_a_program_of_so_many_processes(tmp_path: Path) -> None:
    call = "train(Model().cuda(), 256)"
    answer = fit(tmp_path, MODEL + TRAIN + call, "--only", "fully_shard", "--cards", "2", budget=800)
    (sharded,) = [change for change in answer["changes"] if change["changes"] == ["fully_shard"]]
    first, _, rest = "\n".join(sharded["lines"]).partition("# between")
    changed = (
        MODEL
        + first
        + TRAIN.replace("    optimizer =", indent(f"# between{rest}\n", "    ") + "    optimizer =")
        + call
    )
    (tmp_path / "changed.py").write_text(changed)
    ranks = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "changed.py"]
    done = subprocess.run(
        [COMMAND, "phantom", "run", "--json", "--once", "--gpu", "rtx4060", "--gpus", "2", "--", PYTHON, *ranks],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    processes = json.loads(done.stdout)["processes"]
    peaks = [device["peak_allocated_bytes"] for process in processes for device in process["devices"]]
    # Each process uses one of the two devices.
    peaks = [peak for peak in peaks if peak]
    assert peaks == [sharded["run"]["peak_allocated_bytes"]] * 2
    assert peaks[0] < answer["baseline"]["peak_allocated_bytes"]


def test_recordings_of_the_runs_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    answer = fit(
        tmp_path, MODEL + TRAIN + "train(Model().cuda())", "--only", "fused_optimizer", "--recordings", str(kept),
    )  # fmt: skip
    runs = [answer["baseline"], answer["repeat"], *(change["run"] for change in answer["changes"])]
    files = [path for each in runs for path in each["recordings"]]
    assert sorted(files) == sorted(map(str, kept.iterdir()))
    assert len(files) == len(runs) == 3
    for each in runs:
        report = subprocess.run([COMMAND, "report", "--json", *each["recordings"]], capture_output=True, text=True)
        (device,) = json.loads(report.stdout)["devices"]
        assert device["peak_allocated_bytes"] == each["peak_allocated_bytes"]
