"""Stands in for PyTorch with a GPU, as far as gpumemprof and stormlog use one: counters are constants, and synchronize
waits for nothing. So measured costs are lower bounds of their costs with PyTorch."""
from types import SimpleNamespace


class device:
    def __init__(self, name):
        self.type, _, index = name.partition(":")
        self.index = int(index) if index else None

    def __str__(self):
        return f"{self.type}:{self.index}"


class Tensor:
    is_cuda = False


STATS = {
    f"{kind}_bytes.all.{what}": 1 << 20
    for kind in ("allocated", "reserved", "active", "inactive_split")
    for what in ("current", "peak", "allocated", "freed")
}

cuda = SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 1,
    current_device=lambda: 0,
    synchronize=lambda device: None,
    reset_peak_memory_stats=lambda device: None,
    memory_allocated=lambda device: 1 << 20,
    memory_reserved=lambda device: 1 << 20,
    max_memory_allocated=lambda device: 1 << 20,
    max_memory_reserved=lambda device: 1 << 20,
    memory_stats=lambda device: STATS,
    get_device_properties=lambda device: SimpleNamespace(total_memory=24 << 30),
)
backends = SimpleNamespace(mps=None)
version = SimpleNamespace(hip=None, cuda="12.0")
