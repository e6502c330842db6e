"""Writes GPU memory as TensorBoard scalars.

vram = VramscopeLogger(SummaryWriter())
for step, batch in enumerate(batches):
    train(batch)
    vram.log(step)
"""

from __future__ import annotations

from typing import Any, Protocol

from vramscope.profiler import MemoryMeter, MemorySource


class Writer(Protocol):
    """The writer's interface, as of `torch.utils.tensorboard.SummaryWriter`."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> Any:
        """Writes one scalar."""


class VramscopeLogger:
    """Writes GPU memory in bytes under `prefix/`.

    The tags are `peak_bytes` (allocated since the last `log`), `allocated_bytes`, `reserved_bytes`,
    `device_used_bytes` (by all processes) and `hidden_bytes` (outside PyTorch's pool).
    Raises like `GPUMemoryProfiler`.
    """

    def __init__(
        self, writer: Writer, prefix: str = "vram", device: Any = None, *, source: MemorySource | None = None
    ) -> None:
        self._writer = writer
        self._prefix = prefix
        self._meter = MemoryMeter(device, source=source)

    def log(self, step: int | None = None) -> dict[str, int]:
        """Writes the numbers at a step and returns them."""
        numbers = self._meter.read()
        for name, value in numbers.items():
            self._writer.add_scalar(f"{self._prefix}/{name}", value, step)
        return numbers
