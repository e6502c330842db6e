"""Numbers of CuPy's own pool in the profiler and in `vramscope top`."""

import json
import subprocess
import sys

import pytest
import vramscope
from cupy_pool import Device, cupy, pool_on
from vramscope.profiler import CupySource

MIB = 1 << 20


@pytest.fixture
def pool(monkeypatch):
    """CuPy's default pool, on its own device."""
    pool = pool_on(Device())
    monkeypatch.setattr(cupy(), "_default_memory_pool", pool)
    return pool


@pytest.fixture
def source(pool, monkeypatch):  # noqa: ARG001
    """A source for the default pool. Without a GPU, CuPy's runtime does not know the device's memory."""
    monkeypatch.setattr(cupy().cuda.runtime, "memGetInfo", lambda: (70 * MIB, 100 * MIB), raising=False)
    return CupySource()


def test_calls_are_measured_on_cupys_pool(source, pool):
    profiler = vramscope.GPUMemoryProfiler(source=source)
    kept = []

    def step():
        kept.append(pool.malloc(2 * MIB))
        pool.malloc(5 * MIB)

    result = profiler.profile_function(step)
    assert (result.memory_diff(), result.memory_allocated, result.memory_freed) == (2 * MIB, 2 * MIB, 0)
    # CuPy counts no peaks: the 5 MiB were allocated and freed between two readings, and the pool kept them.
    assert (result.peak_memory_usage(), result.peak_is_exact) == (2 * MIB, False)
    after = result.memory_after
    assert (after.allocated_memory, after.reserved_memory, after.inactive_memory) == (2 * MIB, 7 * MIB, 5 * MIB)
    assert source.key == CupySource(device=0).key
    source.empty_cache()
    assert source.read().reserved == pool.total_bytes() == 2 * MIB


def test_another_pool_has_its_own_source(source):
    other = pool_on(Device())
    held = other.malloc(3 * MIB)
    mine = CupySource(pool=other)
    assert (mine.read().allocated, source.read().allocated) == (3 * MIB, 0)
    assert mine.key != source.key
    del held
    assert mine.read().allocated == 0


def test_a_tracker_on_cupys_pool(source, pool):
    tracker = vramscope.MemoryTracker(source=source, sampling_interval=3600)
    with tracker:
        held = pool.malloc(4 * MIB)
    sample = tracker.get_events("sample")[-1]
    assert (sample.memory_allocated, sample.device_used, sample.device_total) == (4 * MIB, 30 * MIB, 100 * MIB)
    assert tracker.get_events("allocation")[-1].memory_change == 4 * MIB
    # 30 MiB of the device are in use; the pool has none of it at the start and 4 MiB at the end.
    hidden = tracker.hidden_memory()
    assert (hidden["highest_bytes"], hidden["constant_bytes"]) == (30 * MIB, 26 * MIB)
    del held


def test_top_shows_cupys_pool(pool, tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    # PyTorch has precedence if both are imported.
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    held, freed = pool.malloc(6 * MIB), pool.malloc(2 * MIB)
    del freed
    with vramscope.serve(title="arrays") as serving:
        assert len(serving.paths) == cupy().cuda.runtime.getDeviceCount()
        done = subprocess.run(
            [sys.executable, "-m", "vramscope", "top", "--json"], capture_output=True, text=True, timeout=60
        )
        programs = {program["source_name"]: program for program in json.loads(done.stdout)["programs"]}
        program = programs["CuPy's pool on device 0"]
        assert program["title"] == "arrays"
        assert program["now"]["allocated_bytes"] == 6 * MIB
        assert program["now"]["reserved_bytes"] == 8 * MIB
        assert program["releasable_bytes"] == 2 * MIB
        assert program["holders"] is None
    del held
