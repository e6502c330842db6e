"""The profiler on PyTorch, on a real or a phantom GPU."""

import gc
import os
import subprocess
import sys
import threading

import pytest
import vramscope
from vramscope import GPUMemoryProfiler, MemoryTracker, profile_function
from vramscope.profiler import TorchSource

torch = pytest.importorskip("torch", reason="needs torch")
MiB = 1024 * 1024


@pytest.fixture(autouse=True)
def _cuda(request):
    if "without_cuda" in request.node.name:
        return
    if not torch.cuda.is_available():
        pytest.skip("needs gpu, or `vramscope phantom run`")
    gc.collect()
    # cuBLAS workspaces are allocated like tensors and kept for the next call.
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def tensor(mib):
    return torch.empty(mib * MiB, dtype=torch.uint8, device="cuda")


class Training:
    """Three nested functions with a real model: activations, gradients, and an optimizer."""

    def __init__(self):
        self.model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def forward(self, rows):
        return self.model(torch.ones(rows, 512, device="cuda")).sum()

    def backward(self, loss):
        loss.backward()

    def step(self, rows):
        self.backward(self.forward(rows))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def epoch(self):
        for rows in (256, 4096, 32):
            self.step(rows)


def run_training(prepare):
    """Runs the program from the same initial state each time."""
    training = Training()
    prepare(training)
    training.epoch()
    del training
    gc.collect()
    torch.cuda.empty_cache()


def test_nested_numbers_are_those_of_one_call_at_a_time():
    names = ("epoch", "step", "forward", "backward")
    alone = {name: [] for name in names}
    run_training(vars)
    for name in names:

        def prepare(training, name=name):
            method = getattr(training, name)

            def measured(*args):
                # PyTorch's own counters, one function at a time.
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_stats()
                value = method(*args)
                after = torch.cuda.memory_stats()
                kinds = ("allocated_bytes.all.allocated", "allocated_bytes.all.freed", "allocation.all.allocated")
                alone[name].append(
                    (
                        torch.cuda.max_memory_allocated(),
                        torch.cuda.max_memory_reserved(),
                        *(after[kind] - before[kind] for kind in kinds),
                    )
                )
                return value

            setattr(training, name, measured)

        run_training(prepare)

    profiler = GPUMemoryProfiler()

    def prepare_all(training):
        for name in names:
            setattr(training, name, profile_function(getattr(training, name), profiler=profiler))

    run_training(prepare_all)
    assert len(profiler.results) == 1 + 3 + 3 + 3
    for name in names:
        nested = [
            (
                result.peak_memory_usage(),
                result.memory_peak.reserved_memory,
                result.memory_allocated,
                result.memory_freed,
                result.tensors_created,
            )
            for result in profiler.function_stats[name]
        ]
        assert nested == alone[name]


def test_the_programs_own_peak_stays():
    profiler = GPUMemoryProfiler()
    kept = tensor(64)
    del kept
    assert torch.cuda.max_memory_allocated() == 64 * MiB
    with profiler.profile_context("small") as small:
        tensor(2)
    assert small.result.peak_memory_usage() == 2 * MiB
    assert torch.cuda.max_memory_allocated() == 64 * MiB
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 64 * MiB
    assert "64" in torch.cuda.memory_summary()
    if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "max_memory_allocated"):
        assert torch.accelerator.max_memory_allocated() == 64 * MiB


def test_a_reset_by_the_program_takes_nothing_from_open_scopes():
    profiler = GPUMemoryProfiler()
    with profiler.profile_context("outer") as outer:
        tensor(64)
        torch.cuda.reset_peak_memory_stats()
        tensor(8)
        assert torch.cuda.max_memory_allocated() == 8 * MiB
    assert outer.result.peak_memory_usage() == 64 * MiB
    assert torch.cuda.max_memory_allocated() == 8 * MiB


def test_two_profilers_and_a_tracker_share_the_peaks():
    one, two = GPUMemoryProfiler(), GPUMemoryProfiler("cuda:0")
    tracker = MemoryTracker(sampling_interval=60)
    with tracker, one.profile_context("outer") as outer:
        tensor(32)
        with two.profile_context("inner") as inner:
            tensor(4)
            tracker._sample()
            tensor(1)
    assert outer.result.peak_memory_usage() == 32 * MiB
    assert inner.result.peak_memory_usage() == 4 * MiB
    highs = [event.metadata["high_allocated_bytes"] for event in tracker.get_events("sample")]
    assert highs == [0, 32 * MiB, 1 * MiB]
    assert tracker.get_statistics()["peak_memory"] == 32 * MiB


def test_out_of_memory_has_its_true_peak(tmp_path):
    profiler = GPUMemoryProfiler()
    tracker = MemoryTracker(
        enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path), enable_native_cuda_history=True
    )

    def too_much():
        kept = tensor(100)
        return kept, torch.empty(1 << 60, dtype=torch.uint8, device="cuda")

    with pytest.raises(torch.cuda.OutOfMemoryError) as raised, tracker.capture_oom("step"):
        profiler.profile_function(too_much)
    assert type(raised.value) is torch.cuda.OutOfMemoryError
    result = profiler.results[-1]
    assert result.peak_memory_usage() == 100 * MiB
    assert result.error.startswith("OutOfMemoryError: CUDA out of memory")
    (bundle,) = tmp_path.iterdir()
    recording = bundle / "snapshot.pickle"
    done = subprocess.run(
        [sys.executable, "-m", "vramscope", "report", str(recording)], capture_output=True, text=True, timeout=60
    )
    assert "100.00 MiB" in done.stdout, done.stderr


def test_threads_keep_their_own_scopes():
    profiler = GPUMemoryProfiler()
    failures = []

    def work():
        for _ in range(50):
            with profiler.profile_context("work") as block:
                tensor(4)
            if block.result.peak_above_start() > 16 * MiB or block.result.depth:
                failures.append(block.result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    with profiler.profile_context("outer") as outer:
        tensor(64)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert outer.result.peak_memory_usage() >= 64 * MiB
    assert profiler.get_summary()["function_summaries"]["work"]["call_count"] == 200


def test_a_profiled_module():
    profiler = GPUMemoryProfiler()
    model = vramscope.ProfiledModule(torch.nn.Linear(1024, 1024).cuda(), name="net", profiler=profiler)
    out = model(torch.ones(1024, 1024, device="cuda"))
    assert out.shape == (1024, 1024)
    assert model.in_features == 1024
    assert profiler.results[-1].function_name == "net_forward"
    assert profiler.results[-1].memory_diff() >= 4 * MiB
    assert vramscope.MemoryProfiler(profiler=profiler).wrap_module(torch.nn.Linear(2, 2)).profile_name == "Linear"
    with pytest.raises(AttributeError):
        _ = model.no_such_name


def test_a_returned_tensor_is_no_leak():
    profiler = GPUMemoryProfiler()
    losses = []

    def step(kept):
        if kept is not None:
            kept.append(tensor(1))
        return {"out": [tensor(50)]}

    for _ in range(5):
        profiler.profile_function(step, None)
    results = [profile_function(step, profiler=profiler)(None) for _ in range(3)]
    assert len(results) == 3
    assert profiler.leaks() == []
    del results
    profiler.clear_results()
    for _ in range(5):
        profile_function(step, profiler=profiler)(losses)
    (suspect,) = profiler.leaks()
    assert (suspect.function_name, suspect.kept_bytes) == ("step", 4 * MiB)


@pytest.mark.parametrize("device", ["cuda:0", 0, None, "cuda", torch.device("cuda:0")])
def test_devices(device):
    assert GPUMemoryProfiler(device).device == torch.device("cuda:0")


def test_missing_devices_are_refused():
    for factory in (GPUMemoryProfiler, MemoryTracker):
        with pytest.raises(ValueError, match="Device cuda:99 is not available"):
            factory("cuda:99")
        with pytest.raises(ValueError, match="Only CUDA devices are supported for GPU memory profiling"):
            factory("cpu")


def test_without_cuda_the_error_is_clear():
    program = "import vramscope\nfor make in (vramscope.GPUMemoryProfiler, vramscope.MemoryTracker):\n    make()"
    hidden = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**hidden, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert "RuntimeError: CUDA is not available, cannot profile GPU memory" in done.stderr


def test_development_mode_is_silent():
    program = """
import vramscope, torch
profiler = vramscope.GPUMemoryProfiler()
profiler.start_monitoring(0.01)
with profiler.profile_context("a"), vramscope.MemoryTracker(sampling_interval=0.01):
    torch.ones(1000, device="cuda")
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", "import torch\n" + program],
        capture_output=True,
        text=True,
        timeout=120,
    )
    alone = subprocess.run(
        [sys.executable, "-X", "dev", "-c", "import torch\ntorch.ones(1, device='cuda')"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, alone.stderr)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_continues():
    profiler = GPUMemoryProfiler()
    step = profile_function(lambda: 7, name="step", profiler=profiler)
    profiler.start_monitoring(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if step() == 7 and not profiler._monitoring else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    profiler.stop_monitoring()


def test_memory_beside_the_pool_is_assigned_to_this_process_or_to_others():
    """The context counts for this process, and another process's memory for that process."""
    source = TorchSource()
    kept = tensor(8)
    alone = source.outside()
    assert alone.hidden > 0
    if alone.this_process is None:
        pytest.skip("needs nvml that tells processes apart")
    assert 0 < alone.this_process <= alone.hidden
    program = "import torch; x = torch.ones(75 << 20, device='cuda'); print('up', flush=True); input()"
    pipe = subprocess.PIPE
    other = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
    try:
        assert other.stdout.readline() == "up\n"
        beside = source.outside()
    finally:
        other.communicate("\n", timeout=60)
    assert other.pid in {process.pid for process in beside.processes}
    assert beside.this_process == alone.this_process
    assert beside.other_processes - alone.other_processes >= 300 * MiB
    assert beside.hidden - alone.hidden >= 300 * MiB
    del kept
