"""Recordings of CuPy's own pool."""

import importlib.util
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import vramscope
from cupy_pool import Device, cupy
from vramscope.cupy import LineProfileHook, _history, record


@pytest.fixture
def device(monkeypatch):
    """The device that backs CuPy's pools during a recording."""
    cupy()
    device = Device(capacity=1 << 30)
    monkeypatch.setattr(_history, "_device_free", lambda: device.capacity - sum(device.held.values()))
    return device


def base(device):
    return cupy().cuda.memory.PythonFunctionAllocator(device.malloc, device.free).malloc


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "vramscope", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def events(path):
    """Reads a recording's events with Python's own unpickler."""
    snapshot = pickle.loads(path.read_bytes())
    return [(e["action"], e.get("addr"), e["size"]) for trace in snapshot["device_traces"] for e in trace]


def test_every_event_is_recorded(device, tmp_path):
    path = tmp_path / "run.pickle"
    with record(path, allocator=base(device)) as recording:
        alloc = cupy().cuda.alloc
        held = [alloc(n) for n in (1000, 5000, 2 << 20)]
        del held[1]
        held.append(alloc(600))
        pool = cupy().get_default_memory_pool()
        assert pool is recording.pool
        assert (pool.used_bytes(), pool.total_bytes(), pool.free_bytes(), pool.n_free_blocks()) == (
            2099200,
            2103296,
            4096,
            1,
        )
        assert alloc(0).ptr == 0
        with pytest.raises(MemoryError, match="Out of memory allocating 2,147,483,648 bytes"):
            alloc(2 << 30)
        held.clear()
        pool.free_all_blocks()
    assert device.held == {}
    assert cupy().get_default_memory_pool() is not pool
    first, second, third = 1 << 40, (1 << 40) + 1024, (1 << 40) + 1024 + 5120
    recorded = events(path)
    assert recorded[:10] == [
        ("segment_alloc", first, 1024),
        ("alloc", first, 1000),
        ("segment_alloc", second, 5120),
        ("alloc", second, 5000),
        ("segment_alloc", third, 2 << 20),
        ("alloc", third, 2 << 20),
        ("free_requested", second, 5000),
        ("free_completed", second, 5000),
        ("alloc", second, 600),
        ("oom", None, 2 << 30),
    ]
    ends = [action for action, _, _ in recorded[10:]]
    assert [ends.count(end) for end in ("free_requested", "free_completed", "segment_free")] == [3, 3, 3]
    report = command("report", path)
    assert "test_cupy_record.py" in report
    assert "test_every_event_is_recorded" in report


@pytest.mark.usefixtures("device")
def test_a_log_needs_no_end(tmp_path):
    """The written part of the recording is readable, however the program ends."""
    program = f"""
        import os, signal, sys, time
        sys.path[:0] = {sys.path!r}
        import vramscope.cupy, cupy
        from cupy_pool import Device
        device = Device()
        allocator = cupy.cuda.memory.PythonFunctionAllocator(device.malloc, device.free).malloc
        recording = vramscope.cupy.record("run.vramscope", allocator=allocator)
        held = [cupy.cuda.alloc(1000) for _ in range(10)]
        END
    """
    for end, code, num_live in (
        ("sys.exit(3)", 3, 10),
        ("time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, 10),
        ("time.sleep(1); os._exit(4)", 4, 10),
        ("raise KeyboardInterrupt", -signal.SIGINT, 10),
    ):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program).replace("END", end)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        assert done.stderr == "" or end.startswith("raise")
        report = json.loads(command("report", "--json", tmp_path / "run.vramscope"))
        assert report["devices"][0]["events"] == 2 * num_live, end


def test_frees_on_other_threads_and_allocations_there(device, tmp_path):
    path = tmp_path / "run.pickle"
    with record(path, allocator=base(device)):
        held = [cupy().cuda.alloc(1000) for _ in range(20)]

        def work():
            held.append(cupy().cuda.alloc(3000))
            del held[:]

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    recorded = [action for action, _, _ in events(path)]
    assert [recorded.count(action) for action in ("alloc", "free_requested", "free_completed")] == [21, 21, 21]
    assert "work" in command("report", path)


def test_several_devices(device, tmp_path):
    """Each event belongs to the device of its memory."""
    memory = cupy().cuda.memory

    class OnDevice(memory.PythonFunctionAllocator):
        def malloc(self, size):
            pointer = super().malloc(size)
            pointer.mem.device_id = number
            return memory.MemoryPointer(pointer.mem, 0)

    path = tmp_path / "run.pickle"
    held = []
    with record(path, allocator=OnDevice(device.malloc, device.free).malloc):
        for number in (0, 1, 1):  # noqa: B007
            held.append(cupy().cuda.alloc(5000))
    traces = pickle.loads(path.read_bytes())["device_traces"]
    assert [len(trace) for trace in traces] == [2, 4]


def test_memory_that_is_freed_by_hand_ends_once(device, tmp_path):
    path = tmp_path / "run.pickle"
    with record(path, allocator=base(device)):
        first = cupy().cuda.alloc(1000)
        first.mem.free()
        second = cupy().cuda.alloc(700)
        assert second.ptr == 1 << 40
        del first
        del second
    assert [action for action, _, _ in events(path)] == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "alloc",
        "free_requested",
        "free_completed",
    ]


def test_two_records_at_once_and_the_same_file_again(device, tmp_path):
    path = tmp_path / "run.vramscope"
    with record(path, allocator=base(device)) as recording:
        with pytest.raises(vramscope.VramscopeError, match="is already being recorded"):
            record(tmp_path / "other.vramscope")
        assert not (tmp_path / "other.vramscope").exists()
        recording.close()
        recording.close()
    with record(path, allocator=base(device)):
        pass
    with pytest.raises(vramscope.VramscopeError, match="missing"):
        record(tmp_path / "missing" / "run.vramscope")
    with (
        cupy().cuda.using_allocator(base(device)),
        pytest.raises(ValueError, match="inside"),
    ):
        record(tmp_path / "inside.vramscope")
    assert not (tmp_path / "inside.vramscope").exists()


def test_an_error_in_the_block_passes_and_what_is_allocated_stays(device, tmp_path):
    before = cupy().cuda.get_allocator()
    held = []

    def interrupted():
        with record(tmp_path / "run.pickle", allocator=base(device)):
            held.append(cupy().cuda.alloc(1000))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert cupy().cuda.get_allocator() == before
    assert len(device.held) == 1
    assert len(events(tmp_path / "run.pickle")) == 2
    held.clear()
    assert device.held == {}


def test_a_forked_process_records_nothing(device, tmp_path):
    path = tmp_path / "run.pickle"
    with record(path, allocator=base(device)) as recording:
        held = cupy().cuda.alloc(1000)
        pid = os.fork()
        if pid == 0:
            del held
            held = cupy().cuda.alloc(2000)
            recording.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        del held
    assert [action for action, _, _ in events(path)][1:] == ["alloc", "free_requested", "free_completed"]


def test_hooks_are_called_as_without_a_recording(device, tmp_path):
    hook = LineProfileHook()
    with record(tmp_path / "run.vramscope", allocator=base(device)), hook:
        cupy().cuda.alloc(1000)
    assert [(line.name, line.used_bytes) for line in hook.lines()] == [
        ("test_hooks_are_called_as_without_a_recording", 1024)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_does_what_the_pool_did(device, tmp_path, seed):
    """Replaying with CuPy's rules reproduces the recorded run, address by address.

    The requests are large and varied, so that no two free blocks have the same size. For equal sizes, CuPy takes the
    block
    whose Python object has the lowest address, which no recording contains.
    """
    pick = random.Random(seed)
    path = tmp_path / "run.vramscope"
    device.capacity = 1 << 60
    held = {}
    most = 0
    with record(path, allocator=base(device)) as recording:
        for number in range(3000):
            if held and pick.random() < 0.5:
                del held[pick.choice(list(held))]
            elif pick.random() < 0.005:
                recording.pool.free_all_blocks()
            else:
                held[number] = cupy().cuda.alloc(int(2 ** pick.uniform(30, 44)))
            most = max(most, recording.pool.total_bytes())
    (report,) = json.loads(command("report", "--json", path))["devices"]
    assert report["peak_reserved_bytes"] == most
    (replay,) = json.loads(command("replay", "--json", path))["devices"]
    assert replay["conf"] == "backend:cupy"
    assert replay["reproduces_recording"], replay["first_divergence"]
    assert replay["replayed"]["peak_reserved_bytes"] == most


def test_a_closed_recording_does_not_grow(device, tmp_path):
    recording = record(tmp_path / "run.vramscope", allocator=base(device))
    held = cupy().cuda.alloc(512)
    recording.close()
    size = (tmp_path / "run.vramscope").stat().st_size
    del held
    time.sleep(0.3)
    assert (tmp_path / "run.vramscope").stat().st_size == size


def test_the_example_names_what_holds_memory(device, tmp_path, monkeypatch, capsys):
    path = Path(__file__).parents[2] / "examples/python/cupy_memory.py"
    specification = importlib.util.spec_from_file_location("cupy_memory", path)
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    monkeypatch.chdir(tmp_path)
    example.main(base(device))
    printed = capsys.readouterr().out
    assert "MiB in use at the peak" in printed
    assert "smooth" in printed


class Downwards(Device):
    """Returns ever lower addresses, so that blocks and CuPy's objects for them are in different orders."""

    def malloc(self, size: int, _device_id: int) -> int:
        self.next_address -= 1 << 22
        self.held[self.next_address] = size
        return self.next_address


def test_a_replay_says_that_cupy_chose_among_equals(tmp_path):
    cupy()
    with record(tmp_path / "run.vramscope", allocator=base(Downwards())):
        blocks = [cupy().cuda.alloc(1 << 20) for _ in range(64)]
        del blocks[::2]
        blocks += [cupy().cuda.alloc(1 << 20) for _ in range(16)]
    said = " ".join(command("replay", tmp_path / "run.vramscope").split())
    assert "The recorded settings do not reproduce the recording: at event" in said
    assert "Of free blocks of equal size, CuPy takes the one whose Python object has the lowest address" in said
    assert "release is a different one" not in said
    # The byte counts do not depend on the chosen block.
    assert "64.00 MiB 0 B 64 0 recorded: backend:cupy" in said
