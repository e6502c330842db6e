"""Samples, alerts, phases, the watchdog and the flight recorder, on a simulated device."""

import csv
import dataclasses
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import vramscope
from vramscope import MemoryTracker, MemoryWatchdog, OOMFlightRecorder, OOMFlightRecorderConfig, _native, capture_oom
from vramscope.profiler import GpuProcess, OutsideMemory, classify_oom_exception, hidden_memory

MiB = 1024 * 1024
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def tracker(device):
    # The tests take the samples themselves.
    return MemoryTracker(source=device, sampling_interval=3600)


def test_a_sample_has_the_peak_since_the_previous_sample(device, tracker):
    device.malloc(70 * MiB)
    with tracker:
        device.free(device.malloc(100 * MiB))
        device.malloc(1)
        tracker._sample()
    kinds = [event.event_type for event in tracker.get_events()]
    assert kinds == ["start", "peak", "sample", "peak", "allocation", "sample", "sample", "stop"]
    samples = tracker.get_events("sample")
    assert [event.metadata["high_allocated_bytes"] for event in samples] == [70 * MiB, 170 * MiB, 70 * MiB + 1]
    # Earlier memory is not an allocation; memory allocated and freed between samples is.
    stats = tracker.get_statistics()
    assert (stats["total_allocations"], stats["total_allocation_bytes"]) == (2, 100 * MiB + 1)
    assert (stats["total_deallocations"], stats["total_deallocation_bytes"]) == (1, 100 * MiB)
    assert stats["peak_memory"] == 170 * MiB
    assert not tracker.is_tracking


def test_one_crossing_is_one_alert(device, tracker):
    told = []
    tracker.add_alert_callback(told.append)
    with tracker:
        device.malloc(900 * MiB)
        for _ in range(50):
            tracker._sample()
    (alert,) = tracker.get_alerts()
    assert told == [alert]
    assert (alert.event_type, alert.context) == ("warning", "WARNING: Memory usage at 87.9%")
    tracker.remove_alert_callback(told.append)
    assert tracker.alert_callbacks == []


def test_cached_bytes_do_not_count_for_thresholds_and_other_processes_do(device, tracker):
    with tracker:
        device.free(device.malloc(1000 * MiB))
        tracker._sample()
        # The peak since the previous sample decides.
        assert [alert.event_type for alert in tracker.get_alerts()] == ["critical"]
        device.empty_cache()
        tracker._sample()
        tracker.clear_events()
        tracker._rules = _native.Alerts(60.0)
        device.others = 990 * MiB
        tracker._sample()
        assert [alert.event_type for alert in tracker.get_alerts()] == ["critical"]


def test_fragmentation_is_split_blocks_and_not_cache(device, tracker):
    device.free(device.malloc(100 * MiB))
    with tracker:
        assert tracker.get_alerts() == []
        device.split = 50 * MiB
        tracker._sample()
    assert [alert.context for alert in tracker.get_alerts()] == ["High fragmentation: 50.0%"]


def test_growth_is_over_a_minute(device, tracker, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("vramscope.profiler._tracker.time.monotonic", lambda: clock[0])
    with tracker:
        device.malloc(300 * MiB)
        for _ in range(60):
            clock[0] += 2
            device.malloc(5 * MiB)
            tracker._sample()
    # The 300 MiB were allocated once.
    (alert,) = tracker.get_alerts()
    assert alert.metadata["growth_per_minute"] == 150 * MiB


def test_thresholds(tracker):
    tracker.set_threshold("memory_warning_percent", 50)
    assert tracker.thresholds["memory_warning_percent"] == 50
    with pytest.raises(ValueError, match="Unknown threshold: no"):
        tracker.set_threshold("no", 1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"sampling_interval": 0}, "sampling_interval must be > 0"),
        ({"max_events": 0}, "max_events must be >= 1"),
        ({"rank": 4, "world_size": 2}, "rank must be < world_size"),
    ],
)
def test_invalid_options_are_refused(device, wrong, text):
    with pytest.raises(ValueError, match=text):
        MemoryTracker(source=device, **wrong)


def test_events_are_bounded_and_alerts_stay(device):
    tracker = MemoryTracker(source=device, sampling_interval=3600, max_events=5)
    device.malloc(900 * MiB)
    with tracker:
        for _ in range(20):
            tracker._sample()
    assert len(tracker.get_events()) == 5
    assert len(tracker.get_alerts()) == 1
    assert [event.event_type for event in tracker.get_events(last_n=1)] == ["stop"]


def test_an_alert_callback_that_fails_is_logged(device, tracker, caplog):
    def fails(_):
        raise ValueError("no")

    tracker.add_alert_callback(fails)
    device.malloc(900 * MiB)
    with tracker:
        pass
    assert len(tracker.get_events("sample")) == 2
    assert "an alert callback failed: no" in caplog.text


def test_a_failing_device_does_not_end_the_tracker(device, tracker, caplog):
    with tracker:
        device.broken = RuntimeError("gone")
        tracker._monitor._look()
        tracker._monitor._look()
        device.broken = None
        tracker._monitor._look()
    assert caplog.text.count("cannot sample: gone") == 1
    assert len(tracker.get_events("sample")) == 3


def test_phases_nest_by_thread(tracker):
    with pytest.raises(vramscope.VramscopeError, match="Tracking must be active"):
        tracker.enter_phase("early")
    with tracker, tracker.phase("epoch", metadata={"n": 1}) as epoch:
        step = tracker.enter_phase("step")
        other = []
        thread = threading.Thread(target=lambda: other.append(tracker.enter_phase("load")), name="loader")
        thread.start()
        thread.join()
        tracker._sample()
        step.close()
        step.close()
        other[0].close()
        with pytest.raises(ValueError, match="a phase needs a name"):
            tracker.enter_phase(" ")
    assert (epoch.path, step.phase_path, step.parent_scope_id) == (("epoch",), "epoch / step", epoch.scope_id)
    assert (other[0].phase_path, other[0].thread_name) == ("load", "loader")
    entered = tracker.get_events("phase_enter")
    assert entered[0].metadata["phase_scope"]["attributes"] == {"n": 1}
    assert len(entered) == len(tracker.get_events("phase_exit")) == 3
    assert tracker.get_events("sample")[1].metadata["phases"] == ["epoch / step", "load"]


def test_the_watchdog_empties_what_can_be_emptied(device, tracker):
    watchdog = MemoryWatchdog(tracker)
    with tracker:
        device.malloc(1000 * MiB)
        tracker._sample()
        assert watchdog.cleanup_count == 0
        device.free(1000 * MiB)
        tracker._sample()
        assert device.reserved == 0
        device.free(device.malloc(1000 * MiB))
        tracker._sample()
    # The minimum interval has not passed.
    assert watchdog.get_cleanup_stats()["cleanup_count"] == 1
    (cleanup,) = tracker.get_events("cleanup")
    assert cleanup.context == "Performed aggressive memory cleanup"
    assert cleanup.metadata == {"freed_bytes": 1000 * MiB}
    watchdog.force_cleanup()
    assert watchdog.cleanup_count == 2


def test_the_timeline_has_the_last_of_each_interval(tracker):
    with tracker:
        pass
    for i, event in enumerate(tracker.events):
        event.timestamp = 0.4 * i
        event.memory_allocated = i
    assert tracker.get_memory_timeline(1.0)["timestamps"] == [0.0, 1.0]
    assert tracker.get_memory_timeline(1.0)["allocated"] == [2, 3]
    with pytest.raises(ValueError, match="interval must be > 0"):
        tracker.get_memory_timeline(0)


def test_events_are_exported(device, tracker, tmp_path):
    with tracker:
        device.malloc(5)
        tracker._sample()
    tracker.export_events(tmp_path / "events.json", format="json")
    tracker.export_events(tmp_path / "events.csv")
    records = json.loads((tmp_path / "events.json").read_text())
    with open(tmp_path / "events.csv") as file:
        rows = list(csv.DictReader(file))
    assert [record["event_type"] for record in records] == [row["event_type"] for row in rows]
    assert records[-1]["allocator_allocated_bytes"] == 5
    assert set(rows[0]) == set(records[0])
    with pytest.raises(ValueError, match="Unsupported format: xml"):
        tracker.export_events(tmp_path / "events.xml", format="xml")


def test_hidden_memory_is_real(device, tracker):
    with tracker:
        for i in range(7):
            device.others = (100 + 10 * i) * MiB
            tracker._sample()
    found = tracker.hidden_memory()
    assert found["highest_bytes"] == 160 * MiB
    assert {finding["classification"] for finding in found["findings"]} >= {"persistent_drift"}
    assert hidden_memory([])["findings"] == []


def test_an_out_of_memory_leaves_a_bundle(device, tmp_path):
    tracker = MemoryTracker(
        source=device, sampling_interval=3600, enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)
    )
    with (
        tracker,
        tracker.phase("step"),
        pytest.raises(MemoryError) as raised,
        tracker.capture_oom("validation", {"batch": 17}),
    ):
        device.malloc(2000 * MiB)
    assert str(raised.value) == f"out of memory allocating {2000 * MiB} bytes"
    (bundle,) = tmp_path.iterdir()
    assert tracker.last_oom_dump_path == str(bundle)
    metadata = json.loads((bundle / "metadata.json").read_text())
    assert (metadata["reason"], metadata["context"]) == ("message_pattern:out of memory", "validation")
    assert metadata["custom_metadata"]["batch"] == 17
    assert metadata["custom_metadata"]["phases"] == ["step"]
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert sorted(manifest["files"]) == sorted(path.name for path in bundle.iterdir())
    rows = json.loads((bundle / "events.json").read_text())
    assert metadata["captured_event_count"] == len(rows)
    # The columns are those of the Rust tracker's log.
    assert (rows[0]["event"], rows[0]["message"]) == ("start", "Memory tracking started")
    assert all(row["time_us"] > 1e15 for row in rows)
    assert ("step", 1) in {(row.get("phase"), row.get("phase_scope")) for row in rows}
    environment = json.loads((bundle / "environment.json").read_text())
    assert environment["pid"] == os.getpid()
    assert set(environment["versions"]) >= {"python"}
    report = subprocess.run(
        [sys.executable, "-m", "vramscope", "report", str(bundle / "events.json")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "OOM detected" in report.stdout, report.stderr
    # Other errors write no bundle, nor does a tracker without a flight recorder.
    with pytest.raises(ValueError, match="no"), tracker.capture_oom():
        raise ValueError("no")
    assert tracker.handle_exception(ValueError("no")) is None
    assert MemoryTracker(source=device).handle_exception(raised.value) is None
    assert len(list(tmp_path.iterdir())) == 1


def test_a_bundle_names_who_else_is_on_the_device(device, tmp_path):
    device.processes = lambda: (GpuProcess(os.getpid(), 60 * MiB), GpuProcess(1, 100 * MiB))
    device.malloc(10 * MiB)
    device.others = 150 * MiB
    tracker = MemoryTracker(source=device, enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path))
    assert tracker.handle_exception(MemoryError("out of memory")) is not None
    metadata = json.loads((next(tmp_path.iterdir()) / "metadata.json").read_text())
    assert metadata["custom_metadata"]["outside_of_the_pool"] == {
        "hidden": 150 * MiB,
        "this_process": 50 * MiB,
        "other_processes": 100 * MiB,
        "processes": [{"pid": os.getpid(), "used": 60 * MiB}, {"pid": 1, "used": 100 * MiB}],
    }


@pytest.mark.parametrize(
    ("processes", "this", "others"),
    [
        (None, None, None),
        ((), None, None),
        # In a container, any PID may be this process.
        ((GpuProcess(70, 300), GpuProcess(71, 20)), None, None),
        ((GpuProcess(7, None), GpuProcess(8, 20)), None, None),
        ((GpuProcess(7, 150),), 50, 0),
        ((GpuProcess(7, 150), GpuProcess(8, 20), GpuProcess(9, 30)), 50, 50),
        ((GpuProcess(7, 150), GpuProcess(8, 20), GpuProcess(9, None)), 50, None),
        ((GpuProcess(7, 80), GpuProcess(8, 20)), 0, 20),
    ],
)
def test_memory_outside_the_pool_is_split_by_process_if_the_driver_knows_it(processes, this, others):
    found = OutsideMemory.of(100, 250, processes, pid=7)
    assert (found.hidden, found.this_process, found.other_processes) == (150, this, others)
    assert found.processes == (processes or ())


def test_capture_oom_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="ALLOC_FAILED"), capture_oom("matmul"):
        raise RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")
    (bundle,) = (tmp_path / "oom_dumps").iterdir()
    assert json.loads((bundle / "metadata.json").read_text())["context"] == "matmul"


def test_an_unwritable_folder_hides_no_out_of_memory(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir=str(tmp_path / "file")))
    with pytest.raises(RuntimeError, match="out of memory"), capture_oom(recorder=recorder):
        raise RuntimeError("out of memory")
    assert "could not write" in caplog.text


def test_bundles_are_bounded(tmp_path):
    recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir=str(tmp_path), max_dumps=2))
    for i in range(4):
        recorder.dump(reason="r", exception=None, context=str(i), backend="a/b")
    kept = sorted(json.loads((path / "metadata.json").read_text())["context"] for path in tmp_path.iterdir())
    assert kept == ["2", "3"]
    small = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir=str(tmp_path), max_total_mb=1))
    bundle = small.dump(reason="r", exception=None, context="x" * 2 * MiB, backend="cuda")
    manifest = json.loads((Path(bundle) / "manifest.json").read_text())
    assert set(manifest["left_out"]) == {"metadata.json"}
    off = OOMFlightRecorder(OOMFlightRecorderConfig(dump_dir=str(tmp_path)))
    assert off.dump(reason="r", exception=None, context=None, backend="cuda") is None


def test_pytorchs_history_is_in_the_bundle_with_its_report(tmp_path, monkeypatch):
    recorded = pickle.loads((EXAMPLES / "oom.pickle").read_bytes())
    cuda = SimpleNamespace(is_initialized=lambda: True, memory=SimpleNamespace(_snapshot=lambda: recorded))
    torch = SimpleNamespace(cuda=cuda, _C=SimpleNamespace(_cuda_isHistoryEnabled=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", torch)
    recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir=str(tmp_path)))
    bundle = Path(recorder.dump(reason="r", exception=None, context=None, backend="cuda"))
    assert "Out of memory" in (bundle / "report.txt").read_text()
    assert vramscope.read(bundle / "snapshot.pickle").ooms()
    # A history that cannot be read is kept, without a report.
    recorded = {"segments": "?"}
    bundle = Path(recorder.dump(reason="r", exception=None, context=None, backend="cuda"))
    assert (bundle / "snapshot.pickle").exists()
    assert set(json.loads((bundle / "manifest.json").read_text())["left_out"]) == {"report.txt"}


def test_values_without_json_are_text(tmp_path):
    recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir=str(tmp_path), max_dumps=0))
    recorder.record_event({"loss": float("nan"), "big": 1 << 80, "at": Path("a"), "none": None})
    endless = {1: (True, 0.5, -1)}
    endless["self"] = endless
    bundle = recorder.dump(reason="r", exception=KeyError("\ud800"), context=None, backend="cuda", metadata=endless)
    metadata = json.loads((Path(bundle) / "metadata.json").read_text())
    assert metadata["custom_metadata"]["1"] == [True, 0.5, -1]
    assert (metadata["exception_type"], metadata["exception_module"]) == ("KeyError", "builtins")
    assert json.loads((Path(bundle) / "events.json").read_text()) == [{"loss": "nan", "big": str(1 << 80), "at": "a"}]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("CUDA out of memory. Tried"), "message_pattern:out of memory"),
        (RuntimeError("failed to allocate 3 bytes"), "message_pattern:failed to allocate"),
        (type("ResourceExhaustedError", (Exception,), {})("OOM"), "tensorflow.ResourceExhaustedError"),
        (type("OutOfMemoryError", (Exception,), {"__module__": "torch"})(""), "torch.cuda.OutOfMemoryError"),
        (ValueError("bad input"), None),
    ],
)
def test_an_out_of_memory_is_known(error, reason):
    found = classify_oom_exception(error)
    assert (found.is_oom, found.reason) == (reason is not None, reason)


def test_ranks_are_the_launchers(device, monkeypatch):
    for name, value in (("RANK", "3"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8"), ("SLURM_JOB_ID", "42")):
        monkeypatch.setenv(name, value)
    identity = MemoryTracker(source=device).distributed_identity
    assert identity == {"job_id": "42", "rank": 3, "local_rank": 1, "world_size": 8}
    # Missing values come from the launcher, as in gpumemprof.
    assert MemoryTracker(source=device, rank=0, world_size=2).distributed_identity["local_rank"] == 1


def test_cached_bytes_are_no_fragmentation_if_fragments_are_known(device, tracker):
    device.malloc(100 * MiB)
    device.reserved = 300 * MiB
    device.others = 200 * MiB
    with tracker:
        for _ in range(4):
            tracker._sample()
    assert "fragmentation_like" not in {found["classification"] for found in tracker.hidden_memory()["findings"]}
    tracker.clear_events()
    device.split = 150 * MiB
    with tracker:
        for _ in range(4):
            tracker._sample()
    found = {found["classification"]: found for found in tracker.hidden_memory()["findings"]}
    assert found["fragmentation_like"]["average_ratio"] == 0.5
    # Without `inactive_split`, all bytes reserved but not allocated count.
    events = [dataclasses.replace(event, inactive_split=None) for event in tracker.get_events()]
    found = {found["classification"]: found for found in hidden_memory(events)["findings"]}
    assert found["fragmentation_like"]["average_ratio"] == 2 / 3


@pytest.mark.parametrize(
    ("given", "said", "identity"),
    [
        ({}, {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, (3, 1, 8)),
        ({"rank": 7, "world_size": 16}, {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, (7, 1, 16)),
        ({"rank": 7, "world_size": 16}, {}, (7, 7, 16)),
        ({"world_size": 16}, {"SLURM_PROCID": "9", "SLURM_LOCALID": "x", "SLURM_NTASKS": "12"}, (9, 9, 16)),
        ({}, {"WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (2, 2, 4)),
    ],
)
def test_missing_ranks_come_from_the_launcher(monkeypatch, device, given, said, identity):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    found = MemoryTracker(source=device, **given).distributed_identity
    assert (found["rank"], found["local_rank"], found["world_size"]) == identity
