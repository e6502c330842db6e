"""A callback for transformers' `Trainer`: GPU memory in its logs.

trainer = Trainer(..., callbacks=[VramscopeCallback()])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from vramscope.profiler import MemoryMeter


class VramscopeCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Adds to each entry of the trainer's log, in bytes.

    `vram_peak_bytes` allocated since the entry before, `vram_allocated_bytes`, `vram_reserved_bytes`,
    `vram_device_used_bytes` by anyone, and `vram_hidden_bytes` outside of PyTorch's pool.

    It resets nothing that others read, and does nothing where training is not on CUDA.
    """

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._meter: MemoryMeter | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Begins to measure."""
        device = args.device if self._device is None else self._device
        self._meter = MemoryMeter(device) if getattr(device, "type", "cuda") == "cuda" else None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Adds the numbers, to what is kept and to what other callbacks are given."""
        if self._meter is None:
            return
        numbers = {f"vram_{name}": value for name, value in self._meter.read().items()}
        if logs is not None:
            logs.update(numbers)
        if state.log_history:
            state.log_history[-1].update(numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Ends."""
        self._meter = None
