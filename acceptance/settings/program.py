"""Run the installed PyTorch's allocator under each of its settings, and check the setting's effect.

    vramscope phantom run --once -- python acceptance/settings/program.py

Each setting runs in its own process. Prints a JSON object for each setting, and one with their number. Some settings run out of memory
on purpose, and the exit code of `vramscope` reports that.
"""

import json
import os
import subprocess
import sys
import threading

import torch

MIB = 1 << 20
GIB = 1 << 30


def empty(mib, **options):
    return torch.empty(mib * MIB, dtype=torch.uint8, **{"device": "cuda"} | options)


def reserved():
    return torch.cuda.memory_reserved() // MIB


def expect(what, is_, should_be):
    if is_ != should_be:
        sys.exit(f"{what}: {is_}, should be {should_be}")


def expect_out_of_memory(mib):
    try:
        empty(mib)
    except torch.OutOfMemoryError as error:
        return str(error)
    sys.exit(f"{mib} MiB fitted")


# ---- what each setting does ----


def native():
    expect("backend", torch.cuda.get_allocator_backend(), "native")


def asynchronous():
    """The driver's pools keep freed memory until the cache is emptied."""
    expect("backend", torch.cuda.get_allocator_backend(), "cudaMallocAsync")
    kept = empty(100)
    del kept
    again = empty(100)
    expect("allocated", torch.cuda.memory_allocated(), 100 * MIB)
    expect("reserved", reserved(), 100)
    del again
    torch.cuda.empty_cache()
    expect("reserved without a cache", reserved(), 0)
    expect_out_of_memory(torch.cuda.mem_get_info()[1] // MIB)


def not_split():
    """A freed block beyond the limit is not split for a smaller request."""
    empty(64)
    kept = empty(40)
    expect("reserved", reserved(), 104)
    del kept


def rounded_without_splitting():
    """A freed block beyond the limit is used whole if the size difference is small."""
    empty(64)
    kept = empty(40)
    expect("reserved", reserved(), 64)
    del kept


def rounded_to_quarters():
    kept = torch.empty(MIB + 1, dtype=torch.uint8, device="cuda")
    expect("allocated", torch.cuda.memory_allocated(), MIB + MIB // 4)
    del kept


def rounded_by_size():
    """No rounding from 256 MiB, halves from 512 MiB, and eighths of powers of two beyond the last size."""
    for size, should_be in ((300, 300), (700, 768), (2100, 2304)):
        kept = empty(size)
        expect(f"allocated for {size}", torch.cuda.memory_allocated() // MIB, should_be)
        del kept


def collects_garbage():
    """Beyond half of its limit, the process frees unused segments before it runs out of memory."""
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(GIB / total)
    empty(300)
    kept = [empty(310), empty(400)]
    expect("reserved", reserved(), 710)
    expect("retries", torch.cuda.memory_stats()["num_alloc_retries"], 0)
    del kept


def half_of_the_gpu():
    total = torch.cuda.mem_get_info()[1] // MIB
    empty(total * 2 // 5)
    torch.cuda.empty_cache()
    expect_out_of_memory(total * 3 // 5)


def refused_beforehand():
    """A request that cannot fit is refused without a call to the driver."""
    expect_out_of_memory(torch.cuda.mem_get_info()[1] * 2 // MIB)
    expect("rejections", torch.cuda.memory_stats()["num_oom_rejections"], 1)


def large_segments():
    kept = empty(5)
    expect("reserved", reserved(), 64)
    del kept


def expands():
    """One segment grows, and its freed memory serves a larger request."""
    first, second = empty(30), empty(40)
    del first, second
    kept = empty(75)
    expect("reserved", reserved(), 80)
    expect("expandable", [segment["is_expandable"] for segment in torch.cuda.memory_snapshot()], [True])
    del kept


def expands_in_reserve():
    """A single request does not fit into a segment with a smaller address reservation."""
    expands()
    if "expandable_segments_reserve" not in expect_out_of_memory(1200):
        sys.exit("the error does not name the setting")


def lets_other_threads_allocate():
    kept = []
    threads = [threading.Thread(target=lambda: kept.extend(empty(30) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect("reserved", reserved(), 4 * 20 * 30)


def pinned():
    """Host memory that the GPU can access is pinned, and reused after it is freed."""
    there = pinned_and_copied()
    address = there.data_ptr()
    del there
    again = empty(48, device="cpu", pin_memory=True)
    expect("used again", again.data_ptr(), address)


def pinned_in_background():
    """A thread finds reusable memory later. In PyTorch 2.6 the thread outlives the interpreter and crashes, hence `os._exit`."""
    pinned_and_copied()
    os._exit(0)


def pinned_and_copied():
    there = empty(48, device="cpu", pin_memory=True)
    expect("pinned", there.is_pinned(), True)
    there.fill_(7)
    back = empty(48, device="cpu", pin_memory=True)
    back.copy_(there.cuda(non_blocking=True), non_blocking=True)
    torch.cuda.synchronize()
    expect("equal", bool((back == 7).all()), True)
    return there


def pinned_in_a_segment():
    """Small requests share one segment that was pinned at startup."""
    first, second = (empty(1, device="cpu", pin_memory=True) for _ in range(2))
    distance = abs(first.data_ptr() - second.data_ptr())
    expect("distance", distance < 64 * MIB, True)
    expect("pinned", (first.is_pinned(), second.is_pinned()), (True, True))


def pinned_without_rounding():
    torch.cuda.init()
    kept = empty(48, device="cpu", pin_memory=True)
    expect("pinned bytes", torch.cuda.host_memory_stats()["allocated_bytes.current"], 48 * MIB)
    del kept


def pinned_without_cache():
    torch.cuda.init()
    kept = empty(48, device="cpu", pin_memory=True)
    del kept
    expect("pinned bytes", torch.cuda.host_memory_stats()["allocated_bytes.current"], 0)


def used_again_in_capture():
    """Memory that another stream used is reused within a capture, after the capture waited for that stream's work."""
    side = torch.cuda.Stream()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        main = torch.cuda.current_stream()
        both = empty(64).fill_(1)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            both.add_(1)
        both.record_stream(side)
        main.wait_stream(side)
        del both
        kept = empty(64).fill_(2)
    expect("segments of 64 MiB", reserved() // 64, 1)
    del kept


# The first release with a setting, the setting, and the check of its effect.
SETTINGS = [
    ("2.6", "backend:native", native),
    ("2.6", "backend:cudaMallocAsync", asynchronous),
    ("2.6", "max_split_size_mb:32", not_split),
    ("2.6", "max_split_size_mb:32,max_non_split_rounding_mb:32", rounded_without_splitting),
    ("2.6", "roundup_power2_divisions:4", rounded_to_quarters),
    ("2.6", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", rounded_by_size),
    ("2.6", "garbage_collection_threshold:0.5", collects_garbage),
    ("2.6", "expandable_segments:True", expands),
    ("2.6", "release_lock_on_cudamalloc:True", lets_other_threads_allocate),
    ("2.6", "pinned_use_cuda_host_register:True", pinned),
    ("2.6", "pinned_use_cuda_host_register:True,pinned_num_register_threads:4", pinned),
    ("2.6", "pinned_use_background_threads:True", pinned_in_background),
    ("2.11", "per_process_memory_fraction:0.5", half_of_the_gpu),
    ("2.11", "large_segment_size_mb:64", large_segments),
    ("2.11", "pinned_reserve_segment_size_mb:64", pinned_in_a_segment),
    ("2.11", "graph_capture_record_stream_reuse:True", used_again_in_capture),
    ("2.15", "throw_on_cudamalloc_oom:True", refused_beforehand),
    ("2.15", "expandable_segments:True,expandable_segments_reserve:1G", expands_in_reserve),
    ("2.15", "expandable_segments:True,expandable_segments_reserve_by_class:[other:1G]", expands),
    ("2.15", "pinned_free_catch_all:True", pinned),
    ("2.15", "pinned_max_round_threshold_mb:32", pinned_without_rounding),
    ("2.15", "pinned_max_cached_size_mb:32", pinned_without_cache),
]


def main():
    if len(sys.argv) > 1:
        return globals()[sys.argv[1]]()
    count = 0
    for since, setting, check in SETTINGS:
        if numbers(since) > numbers(torch.__version__):
            continue
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting}
        command = [sys.executable, __file__, check.__name__]
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
        count += 1
        last = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        print(json.dumps({"setting": setting, "wrong": [last] if done.returncode else []}), flush=True)
    print(json.dumps({"settings": count}))


def numbers(version):
    return [int(number) for number in version.split(".")[:2]]


if __name__ == "__main__":
    main()
