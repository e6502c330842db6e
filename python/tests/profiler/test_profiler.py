"""Functions and blocks, on a simulated device."""

import asyncio
import inspect
import json
import os
import signal
import threading

import pytest
import vramscope
from vramscope import GPUMemoryProfiler, ProfileResult, SavedResults, profile_context, profile_function
from vramscope.profiler import MemorySource, Reading

KiB = 1024


@pytest.fixture
def profiler(device):
    return GPUMemoryProfiler(source=device)


@pytest.fixture
def program(device):
    """Three nested functions."""

    class Program:
        def inner(self):
            device.free(device.malloc(30 * KiB))

        def middle(self):
            kept = device.malloc(10 * KiB)
            self.inner()
            device.free(kept)
            device.free(device.malloc(5 * KiB))

        def outer(self):
            device.free(device.malloc(100 * KiB))
            self.middle()
            device.malloc(1 * KiB)

    return Program()


def test_a_call_has_its_numbers(device, profiler):
    def step(size, *, rest):
        device.free(device.malloc(size))
        return device.malloc(rest)

    device.malloc(1000)
    result = profiler.profile_function(step, 5000, rest=200)
    assert result.function_name == "step"
    assert (result.memory_allocated, result.memory_freed, result.memory_diff()) == (5200, 5000, 200)
    assert (result.peak_memory_usage(), result.peak_above_start()) == (6000, 5000)
    assert (result.tensors_created, result.tensors_deleted) == (2, 1)
    assert (result.memory_before.operation, result.memory_after.operation) == ("before_step", "after_step")
    assert result.memory_peak.operation == "peak_step"
    assert (result.outcome, result.error, result.depth, result.peak_is_exact) == ("returned", None, 0, True)
    assert profiler.results == [result]
    assert profiler.function_stats == {"step": [result]}


def test_peaks_nest(device, profiler, program):
    with profiler.profile_context("outer") as outer:
        device.free(device.malloc(100 * KiB))
        with profiler.profile_context("middle") as middle:
            kept = device.malloc(10 * KiB)
            inner = profiler.profile_function(program.inner)
            device.free(kept)
    assert inner.peak_memory_usage() == 40 * KiB
    assert middle.result.peak_memory_usage() == 40 * KiB
    assert outer.result.peak_memory_usage() == 100 * KiB
    assert [result.depth for result in profiler.results] == [2, 1, 0]


def test_nested_numbers_are_those_of_one_call_at_a_time(device, profiler, program):
    alone = {}
    for name in ("inner", "middle", "outer"):
        method = getattr(program, name)

        def measured(method=method, name=name):
            alone[name] = profiler.profile_function(method)

        setattr(program, name, measured)
        program.outer()
        delattr(program, name)
        device.free(1 * KiB)

    nested = GPUMemoryProfiler(source=device)
    for name in ("inner", "middle", "outer"):
        setattr(program, name, profile_function(getattr(program, name), profiler=nested))
    program.outer()
    assert len(nested.results) == 3
    for result in nested.results:
        one = alone[result.function_name]
        for of in ("memory_allocated", "memory_freed", "tensors_created", "tensors_deleted"):
            assert getattr(result, of) == getattr(one, of)
        assert result.peak_memory_usage() == one.peak_memory_usage()
        assert result.memory_diff() == one.memory_diff()


def test_scopes_of_other_threads_keep_their_peaks(device, profiler):
    opened, done = threading.Event(), threading.Event()
    results = []

    def other():
        with profiler.profile_context("other") as block:
            device.free(device.malloc(500))
            opened.set()
            assert done.wait(10)
        results.append(block.result)

    thread = threading.Thread(target=other)
    thread.start()
    assert opened.wait(10)
    with profiler.profile_context("here") as here:
        device.free(device.malloc(100))
    done.set()
    thread.join()
    assert here.result.peak_memory_usage() == 100
    assert results[0].peak_memory_usage() == 500
    assert (here.result.depth, results[0].depth) == (0, 0)


def test_a_peak_between_reading_and_resetting_is_reported(device, profiler):
    with profiler.profile_context("outer") as outer:
        device.free(device.malloc(100))
        reset = device.reset_peaks

        def late():
            device.free(device.malloc(700))
            reset()

        device.reset_peaks = late
        with profiler.profile_context("inner") as inner:
            pass
    assert not outer.result.peak_is_exact
    assert inner.result.peak_is_exact


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_is_passed_on_and_recorded(device, profiler, error):
    def fails():
        device.free(device.malloc(700))
        raise error

    with pytest.raises(type(error)) as raised:
        profiler.profile_function(fails)
    assert raised.value is error
    result = profiler.results[-1]
    assert result.peak_memory_usage() == 700
    assert (result.memory_allocated, result.memory_freed) == (700, 700)
    assert result.outcome == "failed"
    assert result.error == f"{type(error).__name__}: {error}"
    assert result.memory_after.operation == "after_fails_error"
    # The next call is outermost again.
    assert profiler.profile_function(lambda: None).depth == 0


def test_a_failing_device_hides_no_exception_of_the_program(device, profiler):
    def fails():
        device.broken = RuntimeError("CUDA error: an illegal memory access was encountered")
        raise ValueError("the real error")

    with pytest.raises(ValueError, match="the real error"):
        profiler.profile_function(fails)
    assert profiler.results == []
    device.broken = None
    assert profiler.profile_function(lambda: None).depth == 0


def test_results_and_snapshots_are_bounded_and_sums_are_not(device):
    profiler = GPUMemoryProfiler(source=device, max_results=3, max_snapshots=2)
    for _ in range(10):
        profiler.profile_function(lambda: device.free(device.malloc(10)))
    assert len(profiler.results) == 3
    assert profiler.snapshots.maxlen == 2
    summary = profiler.get_summary()
    assert summary["total_function_calls"] == 10
    assert summary["total_memory_allocated"] == 100
    for bound in ("max_snapshots", "max_results"):
        with pytest.raises(ValueError, match=f"{bound} must be >= 1"):
            GPUMemoryProfiler(source=device, **{bound: 0})


def test_the_summary_counts_nothing_twice(device, profiler, program):
    assert profiler.get_summary() == {"message": "No profiling results available"}
    device.malloc(64)
    with profiler.profile_context("outer"):
        device.free(device.malloc(100))
        profiler.profile_function(program.inner)
    summary = profiler.get_summary()
    assert summary["total_memory_allocated"] == 100 + 30 * KiB
    assert summary["function_summaries"]["inner"]["total_memory_allocated"] == 30 * KiB
    assert summary["peak_memory_usage"] == 64 + 30 * KiB
    assert summary["memory_change_from_baseline"] == 64
    assert (summary["total_functions_profiled"], summary["total_function_calls"]) == (2, 2)
    assert list(summary["function_summaries"]) == ["inner", "outer"]
    profiler.clear_results()
    assert profiler.get_summary() == {"message": "No profiling results available"}
    assert profiler._baseline_snapshot.operation == "new_baseline"


def test_a_monitor_sees_every_peak(device, profiler):
    profiler.start_monitoring(interval=60)
    device.free(device.malloc(900))
    with pytest.raises(vramscope.VramscopeError, match="monitoring runs already, every 60 s; stop it first"):
        profiler.start_monitoring(interval=1)
    profiler.start_monitoring(interval=60)
    profiler.stop_monitoring()
    profiler.stop_monitoring()
    first, last = profiler.snapshots
    assert (first.operation, first.max_memory_allocated) == ("monitor", 0)
    assert (last.allocated_memory, last.max_memory_allocated) == (0, 900)
    assert last.device_used_memory == 900
    with pytest.raises(ValueError, match="interval must be > 0"):
        profiler.start_monitoring(interval=0)
    with GPUMemoryProfiler(source=device) as other:
        other.start_monitoring(60)
    assert not other._monitoring


def test_a_monitor_ends_with_its_profiler(device):
    profiler = GPUMemoryProfiler(source=device)
    profiler.start_monitoring(0.001)
    thread = profiler._monitor._thread
    del profiler
    thread.join(10)
    assert not thread.is_alive()


def test_calls_at_the_same_time_count_once(device, profiler):
    entered, done = threading.Event(), threading.Event()

    def other():
        with profiler.profile_context("other"):
            entered.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    with profiler.profile_context("here"):
        device.malloc(100)
    device.malloc(5)
    done.set()
    thread.join()
    device.malloc(7)
    summary = profiler.get_summary()
    assert (summary["total_memory_allocated"], summary["total_function_calls"]) == (105, 2)


def test_a_source_that_does_not_count_has_sums_of_its_changes():
    class Numbers(MemorySource):
        allocated = 50

        def read(self):
            return Reading(allocated=self.allocated)

    source = Numbers()
    profiler = GPUMemoryProfiler(source=source)
    for change in (30, -20, 10):
        source.allocated += 1000
        with profiler.profile_context("step"):
            source.allocated += change
    summary = profiler.get_summary()
    assert (summary["total_memory_allocated"], summary["total_memory_freed"]) == (40, 20)
    assert summary["net_memory_change"] == 20


def test_a_result_that_is_dropped_is_no_leak_and_a_list_is(device, profiler):
    kept = []

    def returns():
        return device.malloc(50)

    def caches():
        if not kept:
            kept.append(device.malloc(70))

    def leaks():
        kept.append(device.malloc(30))

    for _ in range(8):
        profiler.profile_function(returns)
        device.free(50)
        profiler.profile_function(caches)
        profiler.profile_function(leaks)
    (suspect,) = profiler.leaks()
    assert (suspect.function_name, suspect.calls, suspect.kept_bytes) == ("leaks", 8, 210)
    assert suspect.bytes_per_call == 30
    assert suspect.floor == tuple(range(30, 270, 30))
    assert str(suspect) == "leaks: 210 B more after 8 calls, 30 B a call"
    profiler.clear_results()
    assert profiler.leaks() == []


def test_a_long_series_stays_small(device, profiler):
    for _ in range(1000):
        profiler.profile_function(lambda: [device.malloc(8)])
    (suspect,) = profiler.leaks()
    assert suspect.bytes_per_call == 8
    assert suspect.kept_bytes == 8 * 999
    assert len(suspect.floor) <= 64


def test_a_decorated_function_is_itself(device, profiler):
    @profile_function(profiler=profiler)
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        device.free(device.malloc(a))
        return a + b

    assert add(1) == 3
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert (add._is_profiled, add._profile_name) == (True, "add")

    class Model:
        @profile_function(name="renamed", profiler=profiler)
        def forward(self, x):
            return x

    model = Model()
    assert model.forward(model) is model
    assert [result.function_name for result in profiler.results] == ["add", "renamed"]


def test_async_functions_and_generators_are_measured_to_their_end(device, profiler):
    @profile_function(profiler=profiler)
    async def load():
        device.malloc(10)
        await asyncio.sleep(0)
        return device.malloc(20)

    @profile_function(profiler=profiler)
    def batches():
        for _ in range(3):
            yield device.malloc(5)
        return "end"

    async def both():
        return await asyncio.gather(load(), load())

    assert asyncio.run(both()) == [20, 20]
    assert list(batches()) == [5, 5, 5]
    loads, generated = profiler.results[:2], profiler.results[2]
    # The device has one counter, so each call also counts the others' allocations.
    assert [result.memory_allocated for result in loads] == [40, 50]
    assert generated.memory_allocated == 15
    assert {result.depth for result in profiler.results} == {0}


def test_the_global_profiler(device):
    mine = GPUMemoryProfiler(source=device)
    before = vramscope.set_global_profiler(mine)
    try:
        with profile_context("block") as given:
            assert given is mine
        assert vramscope.get_global_profiler() is mine
        assert [result.function_name for result in vramscope.get_profile_results(limit=1)] == ["block"]
        assert vramscope.get_summary()["total_function_calls"] == 1
        vramscope.start_monitoring(60)
        vramscope.stop_monitoring()
        assert len(mine.snapshots) == 2
        vramscope.clear_results()
        assert mine.results == []
        assert vramscope.clear_global_profiler() is mine
        assert vramscope.get_summary() == {"message": "No global profiler instance"}
        assert vramscope.get_profile_results() == []
    finally:
        vramscope.clear_global_profiler()
        if before is not None:
            vramscope.set_global_profiler(before)


def test_results_go_to_json_and_back(device, profiler, tmp_path):
    profiler.profile_function(lambda: device.free(device.malloc(10)))
    with pytest.raises(ValueError, match="no"), profiler.profile_context("fails"):
        raise ValueError("no")
    profiler.start_monitoring(60)
    profiler.stop_monitoring()
    path = tmp_path / "results.json"
    manager = vramscope.MemoryProfiler(profiler=profiler)
    manager.save_results(path)
    saved = SavedResults.read(path)
    assert saved.results == profiler.results
    assert saved.snapshots == list(profiler.snapshots)
    assert saved.summary["total_function_calls"] == 2
    data = manager.load_results(path)
    assert set(data) == {"summary", "results", "snapshots"}
    assert ProfileResult.from_dict(data["results"][0]) == profiler.results[0]

    data["results"][1]["memory_before"]["allocated_memory"] = "many"
    path.write_text(json.dumps(data))
    with pytest.raises(vramscope.ReadError, match=r"results\[1\].*allocated_memory|memory_before"):
        SavedResults.read(path)


def test_stacks_are_the_programs_own(device):
    profiler = GPUMemoryProfiler(source=device, collect_stack_traces=True)
    result = profiler.profile_function(lambda: None)
    lines = result.memory_before.stack_trace.splitlines()
    assert lines[-1].endswith("in test_stacks_are_the_programs_own")
    assert not any("vramscope/profiler" in line for line in lines)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_continues(device, profiler):
    holds, forked = threading.Event(), threading.Event()

    def hold():
        # Another thread is inside the profiler at the fork.
        with profiler._book._lock, profiler._lock:
            holds.set()
            forked.wait(30)

    thread = threading.Thread(target=hold)
    with profiler.profile_context("outer") as outer:
        device.free(device.malloc(10))
        thread.start()
        assert holds.wait(10)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)
                profiler.profile_function(lambda: None)
                code = 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        forked.set()
        thread.join()
    assert status == 0
    assert outer.result.peak_memory_usage() == 10


def test_snapshots_are_a_list_with_an_end(device):
    profiler = GPUMemoryProfiler(source=device, max_snapshots=2)
    assert profiler.snapshots == []
    for i in range(3):
        profiler.snapshots.append(profiler._take_snapshot(str(i)))
    assert [snapshot.operation for snapshot in profiler.snapshots[:5]] == ["1", "2"]
    assert profiler.snapshots[-1].operation == "2"
