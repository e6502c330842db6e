"""The behavior that gpumemprof's documentation promises for each name, on a simulated device."""

import inspect
import json
import time

import pytest
from vramscope import (
    GPUMemoryProfiler,
    MemorySnapshot,
    MemoryTracker,
    MemoryWatchdog,
    ProfileResult,
    TrackingEvent,
    set_global_profiler,
)
from vramscope.profiler import LeakDetector, PeakBook, PeakScope, PhaseHandle, profile_model_training

MiB = 1024 * 1024


def test_arguments_and_their_defaults():
    def arguments(function, number):
        parameters = list(inspect.signature(function).parameters.values())[:number]
        return {parameter.name: parameter.default for parameter in parameters}

    none = inspect.Parameter.empty
    assert arguments(GPUMemoryProfiler, 4) == {
        "device": None,
        "track_tensors": True,
        "track_cpu_memory": True,
        "collect_stack_traces": False,
    }
    assert arguments(GPUMemoryProfiler.profile_context, 2) == {"self": none, "name": "context"}
    assert arguments(GPUMemoryProfiler.start_monitoring, 2) == {"self": none, "interval": 0.1}
    assert arguments(MemoryTracker, 13) == {
        "device": None,
        "sampling_interval": 0.1,
        "max_events": 10_000,
        "enable_alerts": True,
        "enable_oom_flight_recorder": False,
        "oom_dump_dir": "oom_dumps",
        "oom_buffer_size": None,
        "oom_max_dumps": 5,
        "oom_max_total_mb": 256,
        "job_id": None,
        "rank": None,
        "local_rank": None,
        "world_size": None,
    }
    assert arguments(MemoryWatchdog, 4) == {
        "tracker": none,
        "auto_cleanup": True,
        "cleanup_threshold": 0.9,
        "aggressive_cleanup_threshold": 0.95,
    }


def test_a_result_and_its_snapshots(device):
    profiler = GPUMemoryProfiler(source=device)

    def load():
        device.free(device.malloc(3 * MiB))
        device.malloc(MiB)
        time.sleep(0.01)

    device.malloc(2 * MiB)
    before = time.time()
    result = profiler.profile_function(load)
    assert isinstance(result, ProfileResult)
    assert 0.01 <= result.execution_time <= time.time() - before
    assert result.call_count == 1
    after = result.memory_after
    assert isinstance(after, MemorySnapshot)
    assert (after.allocated_memory, after.active_memory) == (3 * MiB, 3 * MiB)
    assert (after.reserved_memory, after.inactive_memory) == (5 * MiB, 2 * MiB)
    assert (after.max_memory_allocated, after.max_memory_reserved) == (5 * MiB, 5 * MiB)
    assert after.cpu_memory > MiB
    assert before <= result.memory_before.timestamp <= after.timestamp <= time.time()
    assert (after.device_id, after.operation, after.stack_trace) == (0, "after_load", None)
    peak = result.memory_peak
    assert (peak.allocated_memory, peak.active_memory) == (5 * MiB, 5 * MiB)
    fields = ["function_name", "execution_time", "memory_before", "memory_after", "memory_peak", "memory_allocated"]
    fields += ["memory_freed", "tensors_created", "tensors_deleted", "call_count", "memory_diff", "peak_memory_usage"]
    saved = result.to_dict()
    assert set(fields) <= set(saved)
    assert (saved["memory_diff"], saved["peak_memory_usage"]) == (MiB, 5 * MiB)
    assert saved["memory_after"]["allocated_memory"] == 3 * MiB
    assert ProfileResult.from_dict(json.loads(json.dumps(saved))) == result


def test_numbers_that_are_not_tracked_are_0(device):
    profiler = GPUMemoryProfiler(source=device, track_tensors=False, track_cpu_memory=False)
    result = profiler.profile_function(device.malloc, 512)
    assert (result.tensors_created, result.tensors_deleted, result.memory_after.cpu_memory) == (0, 0, 0)


def test_a_failed_call_and_a_new_baseline(device):
    profiler = GPUMemoryProfiler(source=device)
    assert profiler._baseline_snapshot.operation == "baseline"

    def buggy():
        device.malloc(MiB)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        profiler.profile_function(buggy)
    last = profiler.results[-1]
    assert last.memory_after.allocated_memory == MiB
    assert (last.memory_after.operation, last.memory_peak.operation) == ("after_buggy_error", "peak_buggy_error")
    profiler.clear_results()
    assert (profiler.results, list(profiler.snapshots), profiler.function_stats) == ([], [], {})
    assert profiler._baseline_snapshot.operation == "new_baseline"
    assert profiler._baseline_snapshot.allocated_memory == MiB


def test_every_key_of_the_summary(device):
    device.malloc(MiB)
    profiler = GPUMemoryProfiler(source=device)
    assert profiler.get_summary() == {"message": "No profiling results available"}
    for size in (2 * MiB, 4 * MiB):
        with profiler.profile_context("load"):
            block = device.malloc(size)
    with profiler.profile_context("drop"):
        device.free(block)
    profiler.start_monitoring(interval=60)
    summary = profiler.get_summary()
    profiler.stop_monitoring()
    times = [result.execution_time for result in profiler.results]
    load = summary.pop("function_summaries")["load"]
    assert load.pop("total_time") == pytest.approx(sum(times[:2]))
    assert load.pop("avg_time") == pytest.approx(sum(times[:2]) / 2)
    assert load == {
        "call_count": 2,
        "total_memory_allocated": 6 * MiB,
        "avg_memory_allocated": 3 * MiB,
        "peak_memory": 7 * MiB,
        "failed_calls": 0,
    }
    assert summary.pop("total_execution_time") == pytest.approx(sum(times))
    assert summary == {
        "device": str(device.device),
        "total_functions_profiled": 2,
        "total_function_calls": 3,
        "total_memory_allocated": 6 * MiB,
        "total_memory_freed": 4 * MiB,
        "net_memory_change": 2 * MiB,
        "peak_memory_usage": 7 * MiB,
        "peak_is_exact": True,
        "current_memory_usage": 3 * MiB,
        "baseline_memory_usage": MiB,
        "memory_change_from_baseline": 2 * MiB,
        "monitoring_active": True,
        "snapshots_collected": 1,
    }
    assert profiler.get_summary()["monitoring_active"] is False
    assert [snapshot.operation for snapshot in profiler.snapshots] == ["monitor", "monitor"]


def test_training_is_profiled_by_batch(device):
    class Model:
        is_training = False

        def train(self):
            self.is_training = True

    model = Model()
    set_global_profiler(GPUMemoryProfiler(source=device))
    try:
        found = profile_model_training(
            model, [MiB, 2 * MiB], epochs=2, step=lambda _, size: device.free(device.malloc(size))
        )
    finally:
        set_global_profiler(None)
    assert model.is_training
    assert found["total_epochs"] == 2
    assert [batch["memory_allocated"] for batch in found["batch_results"]] == [MiB, 2 * MiB] * 2
    assert [(epoch["epoch"], epoch["batches_profiled"]) for epoch in found["epoch_summaries"]] == [(0, 2), (1, 2)]
    assert found["overall_summary"]["function_summaries"]["batch"]["call_count"] == 4


def test_scopes_and_leaks_by_themselves(device):
    book = PeakBook.of(device)
    outer = book.open()
    assert isinstance(outer, PeakScope)
    device.free(device.malloc(4 * MiB))
    inner = book.open()
    device.malloc(MiB)
    book.close(inner)
    book.close(outer)
    assert (outer.peaks.allocated, inner.peaks.allocated) == (4 * MiB, MiB)
    profiler, leaks = GPUMemoryProfiler(source=device), LeakDetector()
    for _ in range(4):
        leaks.record(profiler.profile_function(device.malloc, 1000), 0)
    (suspect,) = leaks.suspects(device.allocated)
    assert (suspect.function_name, suspect.calls, suspect.bytes_per_call) == ("malloc", 4, 1000)
    leaks.clear()
    assert leaks.suspects(device.allocated) == []


def test_a_tracker_by_its_methods(device):
    tracker = MemoryTracker(source=device, sampling_interval=3600, oom_buffer_size=7, enable_alerts=False)
    assert tracker.oom_buffer_size == 7
    assert tracker.thresholds == {
        "memory_warning_percent": 80,
        "memory_critical_percent": 95,
        "memory_leak_threshold": 100 * MiB,
        "fragmentation_threshold": 0.3,
    }
    tracker.start_tracking()
    assert tracker.is_tracking
    block = device.malloc(1000 * MiB)
    tracker._sample()
    device.free(block)
    tracker.stop_tracking()
    assert not tracker.is_tracking
    # With the default threshold, it would be critical.
    assert tracker.get_alerts() == []
    events = tracker.get_events()
    assert all(isinstance(event, TrackingEvent) for event in events)
    assert [event.event_type for event in events if event.event_type != "peak"] == [
        "start",
        "sample",
        "allocation",
        "sample",
        "deallocation",
        "sample",
        "stop",
    ]
    assert tracker.get_events("deallocation")[0].memory_change == -1000 * MiB
    assert tracker.get_events(since=events[-1].timestamp + 1) == []
    with pytest.raises(ValueError, match="Unknown threshold"):
        tracker.set_threshold("memory_percent", 1)


@pytest.mark.parametrize(
    ("threshold", "value", "kind"),
    [
        ("memory_critical_percent", 1, "critical"),
        ("memory_warning_percent", 1, "warning"),
        ("fragmentation_threshold", 0.01, "warning"),
    ],
)
def test_each_threshold_raises_its_alert(device, threshold, value, kind):
    tracker = MemoryTracker(source=device, sampling_interval=3600)
    device.malloc(100 * MiB)
    device.split = 10 * MiB
    with tracker:
        assert tracker.get_alerts() == []
        tracker.set_threshold(threshold, value)
        tracker._sample()
    assert [alert.event_type for alert in tracker.get_alerts()] == [kind]


def test_the_leak_threshold_is_a_minutes_growth(device, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("vramscope.profiler._tracker.time.monotonic", lambda: clock[0])
    for threshold, alerts in ((29 * MiB, 1), (31 * MiB, 0)):
        tracker = MemoryTracker(source=device, sampling_interval=3600)
        tracker.set_threshold("memory_leak_threshold", threshold)
        with tracker:
            for _ in range(70):
                clock[0] += 2
                device.malloc(MiB)
                tracker._sample()
        assert len(tracker.get_alerts()) == alerts
        device.allocated = device.reserved = 0


def test_bundles_are_bounded_as_the_tracker_says(device, tmp_path):
    def dumps(**bounds):
        folder = tmp_path / "-".join(bounds)
        tracker = MemoryTracker(
            source=device,
            sampling_interval=3600,
            enable_oom_flight_recorder=True,
            oom_dump_dir=str(folder),
            **bounds,
        )
        with tracker:
            for _ in range(20):
                tracker._sample()
        for i in range(4):
            assert tracker.handle_exception(MemoryError("out of memory"), context=f"step {i}") is not None
        return [json.loads((bundle / "metadata.json").read_text()) for bundle in folder.iterdir()]

    assert {found["context"] for found in dumps(oom_max_dumps=2)} == {"step 2", "step 3"}
    assert len(dumps(oom_max_total_mb=1)) == 4
    assert {found["captured_event_count"] for found in dumps(oom_buffer_size=5)} == {5}


def test_a_watchdog_by_its_thresholds(device, monkeypatch):
    collected = []
    monkeypatch.setattr("vramscope.profiler._watchdog.gc.collect", lambda: collected.append(True))
    tracker = MemoryTracker(source=device, sampling_interval=3600)
    watchdog = MemoryWatchdog(tracker, cleanup_threshold=0.2, aggressive_cleanup_threshold=0.4)
    watchdog.min_cleanup_interval = 0

    def fill(size):
        device.free(device.malloc(size))
        tracker._sample()
        return [event.context for event in tracker.get_events("cleanup")]

    with tracker:
        assert fill(100 * MiB) == []
        assert fill(300 * MiB) == ["Performed standard memory cleanup"]
        assert (device.reserved, collected) == (0, [])
        assert fill(500 * MiB)[1:] == ["Performed aggressive memory cleanup"]
        assert collected == [True]
        watchdog.min_cleanup_interval = 3600
        assert len(fill(500 * MiB)) == 2
    stats = watchdog.get_cleanup_stats()
    assert stats.pop("last_cleanup_time") > 0
    assert stats == {
        "cleanup_count": 2,
        "auto_cleanup_enabled": True,
        "cleanup_threshold": 0.2,
        "aggressive_cleanup_threshold": 0.4,
    }


def test_a_phase_has_its_path_and_its_parent(device):
    tracker = MemoryTracker(source=device, sampling_interval=3600)
    with tracker:
        outer = tracker.enter_phase(" epoch ", metadata={"n": 1})
        assert isinstance(outer, PhaseHandle)
        with tracker.phase("step") as inner:
            assert (inner.path, inner.parent_scope_id) == (("epoch", "step"), outer.scope_id)
        outer.close()
    entered, left = tracker.get_events("phase_enter"), tracker.get_events("phase_exit")
    assert [event.metadata["phase_scope"]["name"] for event in entered] == ["epoch", "step"]
    assert [event.metadata["phase_scope"]["name"] for event in left] == ["step", "epoch"]
    scope = entered[0].metadata["phase_scope"]
    assert (scope["depth"], scope["thread_name"], scope["attributes"]) == (1, "MainThread", {"n": 1})
