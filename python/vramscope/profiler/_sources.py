"""Sources of memory numbers: PyTorch's allocator, CuPy's pool, or a custom source."""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vramscope import VramscopeError
from vramscope._shared import used_and_total
from vramscope.profiler._outside import GpuProcess, OutsideMemory, processes_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class Peaks(NamedTuple):
    """The highest bytes of each kind since the peaks were reset, each at its own moment."""

    allocated: int = 0
    reserved: int = 0
    active: int = 0

    def highest(self, other: Peaks) -> Peaks:
        """Returns the higher value of each kind."""
        return Peaks(*map(max, self, other))


@dataclass(frozen=True)
class Reading:
    """Memory in use on one device, in bytes, and counters since the program began.

    `inactive_split` is the free bytes in segments that are partly in use. Values that the source does not count are
    `None`.
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
        """Cached bytes: reserved minus active."""
        return max(0, self.reserved - self.active)

    @property
    def current(self) -> Peaks:
        """The memory in use now; peaks have these values right after a reset."""
        return Peaks(self.allocated, self.reserved, self.active)


class DeviceMemory(NamedTuple):
    """A device's used bytes, over all processes, and its total bytes."""

    used: int
    total: int


class MemorySource(ABC):
    """A source of memory numbers for one device. A custom source needs only `read`.

    Sources with the same `key` describe the same device and share its peaks.
    """

    #: Whether `Reading.peaks` come from the allocator, so that no peak between two readings is missed.
    knows_peaks: bool = False
    #: The backend's name in bundles and events.
    backend: str = "cuda"
    #: The device's name for users: a `torch.device` or a text.
    device: Any = "cuda:0"
    #: The device's number.
    device_index: int = 0

    @property
    def key(self) -> Hashable:
        """Identifies the device."""
        return id(self)

    @abstractmethod
    def read(self) -> Reading:
        """Returns the memory in use now, without waiting for the device or changing anything."""

    def reset_peaks(self) -> None:
        """Resets the allocator's peaks; called only if `knows_peaks`."""
        raise NotImplementedError

    def device_memory(self) -> DeviceMemory | None:
        """Returns the driver's numbers for the whole device; `None` if it is not asked."""
        return None

    def processes(self) -> tuple[GpuProcess, ...] | None:
        """Returns the driver's list of processes on the device; `None` if it is not asked or does not answer."""
        return None

    def outside(self) -> OutsideMemory:
        """Returns the device's used memory outside the pool, split into this process and others."""
        memory = self.device_memory()
        return OutsideMemory.of(
            self.read().reserved, None if memory is None else memory.used, self.processes(), os.getpid()
        )

    def bytes_of(self, value: object) -> int:  # noqa: ARG002
        """Returns the device bytes of a value, such as a tensor or a list of tensors; 0 if unknown."""
        return 0

    def empty_cache(self) -> None:  # noqa: B027
        """Returns cached memory to the device; does nothing if there is no cache."""


def resolve_device(device: Any) -> Any:
    """Resolves `"cuda:0"`, `0`, a `torch.device`, or `None` (the current device) to a `torch.device`.

    Raises `RuntimeError` without CUDA, and `ValueError` for a non-CUDA or missing device.
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
    """PyTorch's caching allocator on one device. It is exact and never waits for the GPU.

    Raises `RuntimeError` or `ValueError` if the device is missing, like `resolve_device`.
    """

    knows_peaks = True

    def __init__(self, device: Any = None) -> None:
        self.device = resolve_device(device)
        self.device_index = self.device.index
        self._torch: Any = importlib.import_module("torch")
        self.backend = "rocm" if getattr(self._torch.version, "hip", None) else "cuda"

    @property
    def key(self) -> Hashable:
        """The device; all PyTorch sources of this process share it."""
        return ("torch", self.device_index)

    def read(self) -> Reading:
        """Returns the allocator's counters; all are 0 if CUDA is not initialized, as in a forked child."""
        if not self._torch.cuda.is_initialized():
            return Reading(allocated_bytes=0, freed_bytes=0, num_allocations=0, num_frees=0)
        return reading_of(torch_original("_cuda_memoryStats")(self.device_index))

    def reset_peaks(self) -> None:
        """Resets the allocator's peaks; `PeakBook` keeps the values that the program must still see."""
        if self._torch.cuda.is_initialized():
            torch_original("_cuda_resetPeakMemoryStats")(self.device_index)

    def device_memory(self) -> DeviceMemory | None:
        """Returns the result of `cudaMemGetInfo`, which includes other processes and memory outside PyTorch's pool.

        For a GPU that shares the host's memory, it is the result of `/proc/meminfo`.
        """
        if not self._torch.cuda.is_initialized():
            return None
        free, total = self._torch.cuda.mem_get_info(self.device_index)
        properties = self._torch.cuda.get_device_properties(self.device_index)
        return DeviceMemory(*used_and_total(free, total, getattr(properties, "is_integrated", False)))

    def processes(self) -> tuple[GpuProcess, ...] | None:
        """Returns the processes on the device from NVML; `None` without NVML, as on AMD devices."""
        try:
            return processes_on(self._torch.cuda._get_nvml_device_index(self.device_index))
        except (VramscopeError, RuntimeError, AttributeError):
            return None

    def bytes_of(self, value: object) -> int:
        """Sums the storages of all tensors in containers and objects, each once, with the allocator's rounding."""
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
        """Calls `torch.cuda.empty_cache`."""
        self._torch.cuda.empty_cache()


#: The maximum depth of the search for tensors in a returned value.
_DEEPEST = 4


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    return getattr(value, "__dict__", {}).values()


#: The original functions of `torch._C` that the profiler patched.
ORIGINALS: dict[str, Any] = {}


def source_of(device: Any, source: MemorySource | None) -> MemorySource:
    """Returns the given source, or PyTorch's source for the device.

    Raises `TypeError` if the object is not a `MemorySource`; otherwise raises like `TorchSource`.
    """
    if source is None:
        return TorchSource(device)
    if not isinstance(source, MemorySource):
        raise TypeError(f"source must be a MemorySource, not {type(source).__name__}")
    return source


def torch_original(name: str) -> Any:
    """Returns the original, unpatched function of `torch._C`."""
    return ORIGINALS.get(name) or getattr(sys.modules["torch"]._C, name)


def reading_of(stats: dict[str, Any]) -> Reading:
    """Creates a reading from the nested dictionary of `torch.cuda.memory_stats_as_nested_dict`."""
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
    """CuPy's default memory pool, or another pool, on one device.

    The pool counts no peaks. A call's peaks are the highest readings at its start, at its end, and in between.
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
        """Returns the pool's allocated bytes and its total bytes."""
        with self._cupy.cuda.Device(self.device_index):
            pool = self._pool or self._cupy.get_default_memory_pool()
            used, total = pool.used_bytes(), pool.total_bytes()
        return Reading(allocated=used, reserved=total, active=used, peaks=Peaks(used, total, used))

    def device_memory(self) -> DeviceMemory | None:
        """Returns the result of `cudaMemGetInfo`, or of `/proc/meminfo` for a GPU that shares the host's memory."""
        with self._cupy.cuda.Device(self.device_index):
            free, total = self._cupy.cuda.runtime.memGetInfo()
        properties = self._cupy.cuda.runtime.getDeviceProperties(self.device_index)
        return DeviceMemory(*used_and_total(free, total, properties.get("integrated", False)))

    def empty_cache(self) -> None:
        """Calls `MemoryPool.free_all_blocks`."""
        with self._cupy.cuda.Device(self.device_index):
            (self._pool or self._cupy.get_default_memory_pool()).free_all_blocks()
