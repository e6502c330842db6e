"""The memory of GPUs that share the host's memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from vramscope import VramscopeError, _native
from vramscope._shared import used_and_total
from vramscope.profiler import _outside


def test_a_gpu_with_its_own_memory_has_the_numbers_of_the_driver() -> None:
    assert used_and_total(3, 10, False) == (7, 10)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs linux")
def test_a_gpu_that_shares_the_hosts_memory_has_the_numbers_of_the_host() -> None:
    total = int(Path("/proc/meminfo").read_text().split()[1]) << 10
    used, size = used_and_total(3, 10, 1)
    assert size == total
    assert 0 < used < total


def test_numbers_of_the_driver_replace_missing_ones_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> tuple[int, int]:
        raise VramscopeError("/proc/meminfo has no MemAvailable")

    monkeypatch.setattr(_native, "host_device_memory", fails)
    assert used_and_total(3, 10, True) == (7, 10)


def test_the_processes_on_all_instances_of_a_device_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(index: int, pid: int) -> str:
        return f'{{"index": {index}, "processes": [{{"pid": {pid}, "used_bytes": {pid * 100}}}]}}'

    monkeypatch.setattr(_native, "nvml_devices", lambda: f"[{of(0, 1)}, {of(0, 2)}, {of(1, 3)}]")
    assert _outside.processes_on(0) == ((1, 100), (2, 200))
    assert _outside.processes_on(1) == ((3, 300),)
    with pytest.raises(VramscopeError, match="no device 2"):
        _outside.processes_on(2)
