"""The counters of PyTorch's allocator on one GPU."""

from __future__ import annotations

import inspect
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import torch

from vramscope._shared import used_and_total

if TYPE_CHECKING:
    from vramscope._live import Source
    from vramscope._live.data import Bytes, Holder, Reading

SHARE = 0.1
"""The largest share of time spent on collecting holders: one second of work is followed by a pause of ten."""

FRAMES = 20
"""The most frames reported per stack."""

LIBRARY = os.path.dirname(torch.__file__) + os.sep
"""The folder of PyTorch's own source files."""


def torch_sources(holders: bool) -> list[Source]:
    """Returns one source per GPU in PyTorch's order. With `holders`, PyTorch keeps stacks from now on."""
    if not torch.cuda.is_available():
        return []
    # Before the GPU is initialized, `_cuda_isHistoryEnabled` crashes, and no history can be recorded yet.
    is_recording = torch.cuda.is_initialized() and torch._C._cuda_isHistoryEnabled()
    if holders and not is_recording:
        torch.cuda.memory._record_memory_history("state", context="state", stacks="python")
    return [TorchSource(device) for device in range(torch.cuda.device_count())]


class TorchSource:
    """PyTorch's allocator on one GPU."""

    knows_holders = True

    def __init__(self, device: int) -> None:
        self.name = f"PyTorch on cuda:{device}"
        self.device_id: int | None = device
        self._lock = threading.Lock()
        self._held: list[Holder] = []
        self._next_look = 0.0

    def read(self) -> Reading:
        """Returns PyTorch's counters. Before CUDA is initialized, it leaves out the driver's: they need a context."""
        stats: dict[str, int] = torch.cuda.memory_stats(self.device_id)
        now = _bytes(stats, "current")
        if now.get("reserved_bytes"):
            free, total = torch.cuda.mem_get_info(self.device_id)
            is_integrated = getattr(torch.cuda.get_device_properties(self.device_id), "is_integrated", False)
            now["device_used_bytes"], now["device_total_bytes"] = used_and_total(free, total, is_integrated)
        return {
            "now": now,
            "peak": _bytes(stats, "peak"),
            "counts": {
                "num_allocations": stats.get("allocation.all.allocated", 0),
                "num_frees": stats.get("allocation.all.freed", 0),
                "allocated_bytes": stats.get("allocated_bytes.all.allocated", 0),
                "freed_bytes": stats.get("allocated_bytes.all.freed", 0),
                "num_alloc_retries": stats.get("num_alloc_retries", 0),
                "num_ooms": stats.get("num_ooms", 0),
            },
            "inactive_split_bytes": stats.get("inactive_split_bytes.all.current", 0),
        }

    def holders(self, top: int) -> list[Holder]:
        """Returns the live blocks grouped by the innermost frame outside PyTorch, most bytes first."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next_look:
                self._held = _by_line(block for block in _live_blocks(self.device_id))
                took = time.monotonic() - began
                self._next_look = began + took / SHARE
            return self._held[:top]


def _bytes(stats: dict[str, int], of: str) -> Bytes:
    return {
        "requested_bytes": stats.get(f"requested_bytes.all.{of}", 0),
        "allocated_bytes": stats.get(f"allocated_bytes.all.{of}", 0),
        "active_bytes": stats.get(f"active_bytes.all.{of}", 0),
        "reserved_bytes": stats.get(f"reserved_bytes.all.{of}", 0),
    }


def _live_blocks(device: int | None) -> list[dict[str, Any]]:
    """Returns the allocated blocks of a GPU, without the recorded events where PyTorch can leave them out."""
    if "include_traces" in inspect.signature(torch.cuda.memory_snapshot).parameters:
        segments = torch.cuda.memory_snapshot(include_traces=False)
    else:
        segments = torch.cuda.memory_snapshot()
    return [
        block
        for segment in segments
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]


def _by_line(blocks: Any) -> list[Holder]:
    held: dict[str, Holder] = {}
    for block in blocks:
        stack = _users_frames(block.get("frames", ()))
        holder = held.setdefault(stack[0] if stack else "", {"bytes": 0, "count": 0, "stack": stack})
        holder["bytes"] += block["size"]
        holder["count"] += 1
    return sorted(held.values(), key=lambda holder: -holder["bytes"])


def _users_frames(frames: Any) -> list[str]:
    """Returns the Python frames outside PyTorch, innermost first, or all Python frames if every one is PyTorch's."""
    python = [frame for frame in frames if frame["filename"].endswith(".py")]
    own = [frame for frame in python if not frame["filename"].startswith(LIBRARY)]
    return [f"{frame['filename']}:{frame['line']} {frame['name']}" for frame in (own or python)[:FRAMES]]
