"""The callbacks, the logger and the magics with the real libraries."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

torch = pytest.importorskip("torch", reason="needs torch")


@pytest.fixture(autouse=True)
def _cuda():
    if not torch.cuda.is_available():
        pytest.skip("needs gpu, or `vramscope phantom run`")


def test_tensorboard(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="needs tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from vramscope.integrations.tensorboard import VramscopeLogger

    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        vram = VramscopeLogger(writer)
        for step, mib in enumerate((8, 4)):
            start = torch.cuda.memory_allocated()
            tensor = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
            del tensor
            assert vram.log(step)["peak_bytes"] - start == mib << 20
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = ("peak_bytes", "allocated_bytes", "reserved_bytes", "device_used_bytes", "hidden_bytes")
    assert set(events.Tags()["scalars"]) == {f"vram/{name}" for name in names}
    peaks = [event.value for event in events.Scalars("vram/peak_bytes")]
    assert peaks[0] - peaks[1] == 4 << 20
    assert [event.step for event in events.Scalars("vram/hidden_bytes")] == [0, 1]


class Rows(torch.utils.data.Dataset):
    """A dataset of sixteen rows."""

    def __len__(self):
        return 16

    def __getitem__(self, _):
        return {"x": torch.ones(64), "labels": torch.ones(1)}


class Net(torch.nn.Module):
    """A model with the interface that transformers expects."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 1)

    def forward(self, x, labels=None):
        out = self.layer(x)
        return {"loss": (out - labels).square().mean(), "logits": out}


def test_transformers(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("accelerate", reason="needs accelerate")
    from vramscope.integrations.transformers import VramscopeCallback

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        logging_steps=2,
        per_device_train_batch_size=4,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = transformers.Trainer(model=Net(), args=arguments, train_dataset=Rows(), callbacks=[VramscopeCallback()])
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "vram_peak_bytes" in entry]
    assert [entry["step"] for entry in logged][:2] == [2, 4]
    for entry in logged:
        assert entry["vram_peak_bytes"] >= entry["vram_allocated_bytes"] > 0
        assert entry["vram_device_used_bytes"] >= entry["vram_reserved_bytes"] + entry["vram_hidden_bytes"] > 0


def test_transformers_with_tensorboard(tmp_path, monkeypatch, caplog):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("accelerate", reason="needs accelerate")
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from vramscope.integrations.transformers import VramscopeCallback

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        logging_steps=1,
        per_device_train_batch_size=4,
        report_to="tensorboard",
        disable_tqdm=True,
        save_strategy="no",
    )
    behind = VramscopeCallback()
    trainer = transformers.Trainer(model=Net(), args=arguments, train_dataset=Rows(), callbacks=[behind])
    trainer.train()
    assert "tensorboard does not get vramscope's numbers" in caplog.text
    caplog.clear()
    assert behind.add_to(trainer) is behind
    trainer.train()
    assert not caplog.text
    assert trainer.callback_handler.callbacks.count(behind) == 1
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    peaks = events.Scalars("train/vram_peak_bytes")
    assert {event.step for event in peaks} == {1, 2}
    assert peaks[-1].value > 0


@pytest.mark.parametrize("accumulated", [1, 2])
def test_lightning(tmp_path, accumulated):
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning")
    from vramscope.integrations.lightning import VramscopeCallback

    logged, modules_own = [], []

    class Logger(lightning.loggers.Logger):
        name = version = "test"

        def log_metrics(self, metrics, step=None):
            (logged if "vram_peak_bytes" in metrics else modules_own).append((step, metrics))

        def log_hyperparams(self, *_):
            pass

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, index):
            # The first batch of each step allocates most.
            size = (100 << 20) * (index + 1 if accumulated == 1 else index + 2 * (1 - index % 2))
            extra = torch.empty(size, dtype=torch.uint8, device=self.device)
            del extra
            loss = self.net(batch["x"], batch["labels"])["loss"]
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        callbacks=[VramscopeCallback()],
        max_epochs=1,
        accelerator="cuda",
        devices=1,
        logger=Logger(),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        log_every_n_steps=1,
        accumulate_grad_batches=accumulated,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(Rows(), batch_size=4 // accumulated))
    # The module's own values are logged at the same steps.
    assert [step for step, _ in logged] == [step for step, _ in modules_own] == [0, 1, 2, 3]
    # The first step includes one-time allocations.
    second, third, fourth = (metrics["vram_peak_bytes"] for _, metrics in logged[1:])
    assert (third - second, fourth - third) == (accumulated * 100 << 20, accumulated * 100 << 20)
    for _, metrics in logged:
        assert metrics["vram_device_used_bytes"] == metrics["vram_reserved_bytes"] + metrics["vram_hidden_bytes"]


def test_magics(capsys):
    pytest.importorskip("IPython", reason="needs ipython")
    from IPython.core.error import UsageError
    from IPython.testing.globalipapp import get_ipython, start_ipython

    shell: InteractiveShell = start_ipython() or get_ipython()
    shell.run_cell("%load_ext vramscope")
    shell.run_cell(
        "import torch\ndef tensor(mib):\n    return torch.empty(mib << 20, dtype=torch.uint8, device='cuda')"
    )
    start = torch.cuda.memory_allocated()
    capsys.readouterr()
    shell.run_cell("%vram a = tensor(8)")
    said = capsys.readouterr().out
    assert "(+8.00 MiB), kept +8.00 MiB," in said
    shell.run_cell("%%vram -l\nb = tensor(16)\ndel b\nc = tensor(4)\n1 + 1")
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("  ")[2] for line in lines[:5]] == [
        "b = tensor(16)",
        "del b",
        "c = tensor(4)",
        "1 + 1",
        "all",
    ]
    assert "(+16.00 MiB), kept +16.00 MiB" in lines[0]
    assert "kept -16.00 MiB" in lines[1]
    assert "(+16.00 MiB), kept +4.00 MiB" in lines[4]
    assert lines[5].endswith("2")
    failed = shell.run_cell("%%vram\nd = tensor(2)\nraise ValueError('its own')")
    assert isinstance(failed.error_in_exec, ValueError)
    said = capsys.readouterr().out
    assert "(+2.00 MiB), kept +2.00 MiB" in said
    # The traceback shows the cell's source line.
    assert "raise ValueError('its own')" in said
    assert isinstance(shell.run_cell("%%vram -x\n1").error_in_exec, UsageError)
    assert torch.cuda.memory_allocated() - start == 14 << 20
