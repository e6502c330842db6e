"""Where numbers come from: PyTorch's allocator, CuPy's pool, or a source of one's own."""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vramscope import VramscopeError
from vramscope.profiler._outside import GpuProcess, OutsideMemory, processes_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class Peaks(NamedTuple):
    """The highest bytes since the peaks were reset, each at its own moment."""

    allocated: int = 0
    reserved: int = 0
    active: int = 0

    def highest(self, other: Peaks) -> Peaks:
        """The higher of each two."""
        return Peaks(*map(max, self, other))


@dataclass(frozen=True)
class Reading:
    """What is in use on one device, in bytes, and what was counted since the program began.

    `inactive_split` are free bytes in segments of which another part is in use. What the source counts is `None` where
    it does not count.
    """

    allocated: int = 0
    reserved: int = 0
    active: int = 0
    inactive_split: int | None = None
    requested: int | None = None
    peaks: Peaks = field(default_factory=Peaks)
    allocated_bytes: int | None = None
    freed_bytes: int | None = None
    num_allocations: int | None = None
    num_frees: int | None = None
    num_alloc_retries: int = 0
    num_ooms: int = 0

    @property
    def inactive(self) -> int:
        """Cached bytes: reserved and not active."""
        return max(0, self.reserved - self.active)

    @property
    def current(self) -> Peaks:
        """What is in use now, as peaks begin after a reset."""
        return Peaks(self.allocated, self.reserved, self.active)


class DeviceMemory(NamedTuple):
    """Bytes of a device in use by anyone, and in all."""

    used: int
    total: int


class MemorySource(ABC):
    """Something that knows how much memory is in use on one device. A source of one's own needs `read` alone.

    Two sources with the same `key` are of the same device, and share its peaks.
    """

    #: Whether `Reading.peaks` are the allocator's own, so that no peak between two readings is missed.
    knows_peaks: bool = False
    #: The name of the backend, as bundles and events write it.
    backend: str = "cuda"
    #: What users call the device: a `torch.device`, or a text.
    device: Any = "cuda:0"
    #: The number of the device.
    device_index: int = 0

    @property
    def key(self) -> Hashable:
        """What tells this device from others."""
        return id(self)

    @abstractmethod
    def read(self) -> Reading:
        """What is in use now. It neither waits for the device nor changes anything."""

    def reset_peaks(self) -> None:
        """Lets the peaks of the allocator begin anew; only called where `knows_peaks`."""
        raise NotImplementedError

    def device_memory(self) -> DeviceMemory | None:
        """What the driver says of the whole device; `None` where it is not asked."""
        return None

    def processes(self) -> tuple[GpuProcess, ...] | None:
        """Who is on the device, by the driver; `None` where it is not asked or does not answer."""
        return None

    def outside(self) -> OutsideMemory:
        """What is in use on the device outside of the pool: of this process, and of others."""
        memory = self.device_memory()
        return OutsideMemory.of(
            self.read().reserved, None if memory is None else memory.used, self.processes(), os.getpid()
        )

    def bytes_of(self, value: object) -> int:  # noqa: ARG002
        """The bytes of this device that a value holds, such as a tensor or a list of tensors; 0 if unknown."""
        return 0

    def empty_cache(self) -> None:  # noqa: B027
        """Gives cached memory back to the device; does nothing where there is no cache."""


def resolve_device(device: Any) -> Any:
    """The `torch.device` that a profiler means by `"cuda:0"`, `0`, a `torch.device`, or `None` for the current one.

    Raises `RuntimeError` where there is no CUDA, `ValueError` for a device that is not of CUDA or not there.
    """
    torch = importlib.import_module("torch")
    if device is None:
        if not torch.cuda.is_available():
            raise RuntimeError("CUDA is not available, cannot profile GPU memory")
        resolved = torch.device("cuda")
    elif isinstance(device, int):
        resolved = torch.device(f"cuda:{device}")
    else:
        resolved = torch.device(device)
    if resolved.type != "cuda":
        raise ValueError("Only CUDA devices are supported for GPU memory profiling")
    if not torch.cuda.is_available():
        raise RuntimeError("CUDA is not available, cannot profile GPU memory")
    index = torch.cuda.current_device() if resolved.index is None else resolved.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"Device {resolved} is not available")
    return torch.device(f"cuda:{index}")


class TorchSource(MemorySource):
    """PyTorch's caching allocator on one device: exact, and nothing waits for the GPU.

    Raises `RuntimeError` or `ValueError` where the device is not there, as `resolve_device` does.
    """

    knows_peaks = True

    def __init__(self, device: Any = None) -> None:
        self.device = resolve_device(device)
        self.device_index = self.device.index
        self._torch: Any = importlib.import_module("torch")
        self.backend = "rocm" if getattr(self._torch.version, "hip", None) else "cuda"

    @property
    def key(self) -> Hashable:
        """The device, as all users of PyTorch in this process share it."""
        return ("torch", self.device_index)

    def read(self) -> Reading:
        """The allocator's counters; all are 0 where CUDA has not begun, as in a process that was forked."""
        if not self._torch.cuda.is_initialized():
            return Reading(allocated_bytes=0, freed_bytes=0, num_allocations=0, num_frees=0)
        return reading_of(torch_original("_cuda_memoryStats")(self.device_index))

    def reset_peaks(self) -> None:
        """Resets the allocator's peaks; `PeakBook` keeps what the program must see of them."""
        if self._torch.cuda.is_initialized():
            torch_original("_cuda_resetPeakMemoryStats")(self.device_index)

    def device_memory(self) -> DeviceMemory | None:
        """What `cudaMemGetInfo` says: other processes and what lies outside of PyTorch's pool are in it."""
        if not self._torch.cuda.is_initialized():
            return None
        free, total = self._torch.cuda.mem_get_info(self.device_index)
        return DeviceMemory(total - free, total)

    def processes(self) -> tuple[GpuProcess, ...] | None:
        """Who is on the device, by NVML; `None` where there is none, as for AMD's devices."""
        try:
            return processes_on(self._torch.cuda._get_nvml_device_index(self.device_index))
        except (VramscopeError, RuntimeError, AttributeError):
            return None

    def bytes_of(self, value: object) -> int:
        """The storages of all tensors in containers and objects, each once, as the allocator rounds them."""
        storages: dict[int, int] = {}
        self._find_storages(value, storages, 0)
        return sum(-size // 512 * -512 for size in storages.values())

    def _find_storages(self, value: object, storages: dict[int, int], depth: int) -> None:
        if isinstance(value, self._torch.Tensor):
            tensor: Any = value
            if tensor.is_cuda and tensor.device.index == self.device_index and tensor.layout is self._torch.strided:
                storage = tensor.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
        elif depth < _DEEPEST:
            for part in _parts(value):
                self._find_storages(part, storages, depth + 1)

    def empty_cache(self) -> None:
        """`torch.cuda.empty_cache`."""
        self._torch.cuda.empty_cache()


#: How deep what a function returned is searched for tensors.
_DEEPEST = 4


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    return getattr(value, "__dict__", {}).values()


#: Functions of `torch._C` as they were before the profiler put its own in their place.
ORIGINALS: dict[str, Any] = {}


def source_of(device: Any, source: MemorySource | None) -> MemorySource:
    """The source that a profiler is given, or PyTorch's of a device.

    Raises `TypeError` for an object that is no `MemorySource`, else as `TorchSource` does.
    """
    if source is None:
        return TorchSource(device)
    if not isinstance(source, MemorySource):
        raise TypeError(f"source is a MemorySource, not {type(source).__name__}")
    return source


def torch_original(name: str) -> Any:
    """A function of `torch._C`, as PyTorch made it."""
    return ORIGINALS.get(name) or getattr(sys.modules["torch"]._C, name)


def reading_of(stats: dict[str, Any]) -> Reading:
    """A reading out of the nested dictionary of `torch.cuda.memory_stats_as_nested_dict`."""
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    active, blocks = stats["active_bytes"]["all"], stats["allocation"]["all"]
    requested = stats.get("requested_bytes", {}).get("all", {}).get("current")
    return Reading(
        allocated=allocated["current"],
        reserved=reserved["current"],
        active=active["current"],
        inactive_split=stats["inactive_split_bytes"]["all"]["current"],
        requested=requested,
        peaks=Peaks(allocated["peak"], reserved["peak"], active["peak"]),
        allocated_bytes=allocated["allocated"],
        freed_bytes=allocated["freed"],
        num_allocations=blocks["allocated"],
        num_frees=blocks["freed"],
        num_alloc_retries=stats["num_alloc_retries"],
        num_ooms=stats["num_ooms"],
    )


class CupySource(MemorySource):
    """CuPy's default memory pool, or another one, on one device.

    The pool counts no peaks: those of a call are the highest of the readings at its beginning, its end, and between.
    """

    def __init__(self, device: int | None = None, pool: Any = None) -> None:
        self._cupy: Any = importlib.import_module("cupy")
        self.device_index = self._cupy.cuda.Device().id if device is None else device
        self.device = f"cuda:{self.device_index}"
        self._pool = pool

    @property
    def key(self) -> Hashable:
        """The device and the pool."""
        return ("cupy", self.device_index, id(self._pool))

    def read(self) -> Reading:
        """The bytes that the pool has handed out, and those that it holds."""
        with self._cupy.cuda.Device(self.device_index):
            pool = self._pool or self._cupy.get_default_memory_pool()
            used, total = pool.used_bytes(), pool.total_bytes()
        return Reading(allocated=used, reserved=total, active=used, peaks=Peaks(used, total, used))

    def device_memory(self) -> DeviceMemory | None:
        """What `cudaMemGetInfo` says."""
        with self._cupy.cuda.Device(self.device_index):
            free, total = self._cupy.cuda.runtime.memGetInfo()
        return DeviceMemory(total - free, total)

    def empty_cache(self) -> None:
        """`MemoryPool.free_all_blocks`."""
        with self._cupy.cuda.Device(self.device_index):
            (self._pool or self._cupy.get_default_memory_pool()).free_all_blocks()
