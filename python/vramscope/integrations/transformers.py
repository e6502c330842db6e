"""A callback that adds GPU memory to the logs of transformers' `Trainer`.

trainer = Trainer(...)
VramscopeCallback().add_to(trainer)
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from vramscope.profiler import MemoryMeter
from vramscope.profiler._monitor import logger


class VramscopeCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Adds GPU memory in bytes to each entry of the trainer's log.

    The keys are `vram_peak_bytes` (allocated since the last entry), `vram_allocated_bytes`, `vram_reserved_bytes`,
    `vram_device_used_bytes` (by all processes) and `vram_hidden_bytes` (outside PyTorch's pool).

    The callback resets no counters of other readers. Without CUDA it does nothing. A trainer calls callbacks from
    `callbacks=[...]` after the callbacks of TensorBoard and W&B, which then miss these numbers. `add_to` puts this
    callback first.
    """

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._is_first = False
        self._meter: MemoryMeter | None = None

    def add_to(self, trainer: Any) -> VramscopeCallback:
        """Adds the callback to a trainer, before callbacks that report to TensorBoard or W&B."""
        callbacks = trainer.callback_handler.callbacks
        callbacks[:] = [self, *(callback for callback in callbacks if callback is not self)]
        self._is_first = True
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Begins to measure."""
        reports = [name for name in (args.report_to or ()) if name != "none"]
        if reports and not self._is_first:
            logger.warning(
                "%s does not get vramscope's numbers: use VramscopeCallback().add_to(trainer), not callbacks=[...]",
                " and ".join(reports),
            )
        device = args.device if self._device is None else self._device
        self._meter = MemoryMeter(device) if getattr(device, "type", "cuda") == "cuda" else None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Adds the numbers to the kept log entry and to the one that other callbacks receive."""
        if self._meter is None:
            return
        numbers = {f"vram_{name}": value for name, value in self._meter.read().items()}
        if logs is not None:
            logs.update(numbers)
        if state.log_history:
            state.log_history[-1].update(numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Stops measuring."""
        self._meter = None
