"""A callback for Lightning: GPU memory of each batch in its logs.

trainer = lightning.Trainer(callbacks=[VramscopeCallback()])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vramscope.profiler import MemoryMeter

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    try:
        Callback = importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        Callback = importlib.import_module("pytorch_lightning").Callback


class VramscopeCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Logs what each training batch did, in bytes.

    `vram_peak_bytes` allocated in it, `vram_allocated_bytes`, `vram_reserved_bytes`,
    `vram_device_used_bytes` by anyone, and `vram_hidden_bytes` outside of PyTorch's pool.

    It resets nothing that others read, and does nothing where training is not on CUDA.
    """

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self._device = device
        self._meter: MemoryMeter | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Begins to measure."""
        device = pl_module.device if self._device is None else self._device
        self._meter = MemoryMeter(device) if getattr(device, "type", "cuda") == "cuda" else None

    def on_train_batch_start(self, *_: Any) -> None:
        """Lets the batch's peak begin."""
        if self._meter is not None:
            self._meter.read()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:  # noqa: ARG002
        """Gives the numbers to the trainer's loggers, as often as it logs."""
        if self._meter is None:
            return
        # `log_dict` would make tensors on the GPU of them, of 32 bits.
        numbers = {f"vram_{name}": value for name, value in self._meter.read().items()}
        step = trainer.global_step
        if step % max(1, trainer.log_every_n_steps) == 0:
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step=step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Ends."""
        self._meter = None
