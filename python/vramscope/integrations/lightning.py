"""A Lightning callback that logs each step's GPU memory.

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
    """Logs each training step's memory in bytes, at the steps at which Lightning logs.

    The keys are `vram_peak_bytes` (allocated during the step), `vram_allocated_bytes`, `vram_reserved_bytes`,
    `vram_device_used_bytes` (by all processes) and `vram_hidden_bytes` (outside PyTorch's pool). With gradient
    accumulation, a step has several batches.

    The callback resets no counters of other readers. Without CUDA it does nothing.
    """

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self._device = device
        self._meter: MemoryMeter | None = None
        self._is_in_step = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Begins to measure."""
        device = pl_module.device if self._device is None else self._device
        self._meter = MemoryMeter(device) if getattr(device, "type", "cuda") == "cuda" else None

    def on_train_batch_start(self, *_: Any) -> None:
        """Begins the step's peak at its first batch."""
        if self._meter is not None and not self._is_in_step:
            self._meter.read()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Passes the numbers to the trainer's loggers, as often as the trainer logs."""
        if self._meter is None:
            return
        self._is_in_step = pl_module.automatic_optimization and trainer.fit_loop._should_accumulate()
        if self._is_in_step or not trainer._logger_connector.should_update_logs:
            return
        # `log_dict` would turn the numbers into 32-bit tensors on the GPU.
        numbers = {f"vram_{name}": value for name, value in self._meter.read().items()}
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.fit_loop.epoch_loop._batches_that_stepped)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Stops measuring."""
        self._meter = None
