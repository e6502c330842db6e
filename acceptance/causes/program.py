"""Run out of memory for one planted cause, and print the number of its bytes.

    program.py CASE [mended]

CASES defines the device and the allocator settings of each case; the settings come from the environment. Each case fails for its own
cause only. It prints the cause and its bytes as JSON, from the planted sizes or from PyTorch's counters, and ends. With `mended`, cases
that a program change can fix run without the cause. If nothing fails, it prints the peak of reserved bytes.
"""

import ctypes
import json
import multiprocessing
import sys

import torch

MIB = 1 << 20
# For each case: MiB of the device, MiB of a context, allocator settings.
CASES = {
    "rounding": (1024, 64, "roundup_power2_divisions:2"),
    "other_size_class": (1024, 64, ""),
    "other_stream": (1024, 64, ""),
    "pending": (1024, 64, ""),
    "other_pool": (1024, 64, ""),
    "limit": (1024, 64, ""),
    "max_split_size": (1024, 64, "max_split_size_mb:21"),
    "garbage_collection": (1024, 70, "garbage_collection_threshold:0.5,per_process_memory_fraction:0.93"),
    "outside": (4096, 64, ""),
    "size": (1024, 64, ""),
    "idle_stream": (1024, 64, ""),
    "fragmentation": (1024, 64, ""),
}


def block(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def counter(name):
    return torch.cuda.memory_stats()[f"{name}.all.current"]


def inside():
    return counter("allocated_bytes") - counter("requested_bytes")


def unused():
    return counter("reserved_bytes") - counter("active_bytes")


def segments_with_holes(count):
    """Make `count` segments of 64 MiB, each with a block of 58 MiB and then a block of 6 MiB; return both lists."""
    holes, kept = [], []
    for _ in range(count):
        whole = block(64)
        del whole
        holes.append(block(58))
        kept.append(block(6))
    return holes, kept


def rounding(kept):
    kept.extend(block(33) for _ in range(19))
    # Each block of 33 MiB is rounded to 48. The last request is a multiple of the step, because only its rounded size is
    # recorded.
    return 96, inside


def other_size_class(kept):
    # A segment of 2 MiB holds two blocks of 700 KiB.
    kept.extend(block(700 / 1024) for _ in range(900))
    return 100, lambda: 450 * (2048 - 1400) * 1024


def other_stream(kept):
    stream, holes = torch.cuda.Stream(), []
    for _ in range(12):
        kept.extend(block(2) for _ in range(4))
        with torch.cuda.stream(stream):
            more, stay = segments_with_holes(1)
        holes += more
        kept += stay
    holes.clear()
    return 150, lambda: 12 * 58 * MIB


def idle_stream(kept):
    with torch.cuda.stream(torch.cuda.Stream()):
        holes, stay = segments_with_holes(12)
    kept += stay
    holes.clear()
    kept.extend(block(2) for _ in range(60))
    return 150, lambda: 12 * 58 * MIB


def pending(kept, is_mended):
    # During a capture, freed blocks that other streams used are pending until the capture ends.
    main, capturing, other = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()
    kept.append(block(400))
    shared = block(300)
    if not is_mended:
        shared.record_stream(other)
    graph = torch.cuda.CUDAGraph()
    kept.append(graph)
    capturing.wait_stream(main)
    with torch.cuda.stream(capturing):
        graph.capture_begin(capture_error_mode="thread_local")
    del shared
    return 300, lambda: counter("active_bytes") - counter("allocated_bytes")


def other_pool(kept, is_mended):
    pool = torch.cuda.MemPool()
    if is_mended:
        holes, stay = segments_with_holes(12)
    else:
        with torch.cuda.use_mem_pool(pool):
            holes, stay = segments_with_holes(12)
    kept += [pool, *stay]
    kept.append(block(160))
    holes.clear()
    return 50, lambda: 12 * 58 * MIB


def limit(kept, is_mended):
    if not is_mended:
        torch.cuda.set_per_process_memory_fraction(0.5)
    kept.append(block(400))
    return 150, lambda: torch.cuda.mem_get_info()[0]


def max_split_size(kept):
    large = [block(40) for _ in range(23)]
    large.clear()
    # Each block gets its own segment of 40 MiB. Without the setting, the remaining 18 MiB would serve the next requests.
    kept.extend(block(22) for _ in range(23))
    kept.extend(block(18) for _ in range(2))
    return 18, inside


def garbage_collection(kept):
    kept.append(block(640))
    cached = block(300)
    del cached
    # This request needs a segment of 2 MiB, so the collector frees the cached segment. The next request then takes a new
    # segment of 20 MiB instead of a part of the cached one.
    kept.append(block(1 / 1024))
    kept.append(block(4))
    return 296, lambda: 16 * MIB


def hold_memory(mib, ready, done):
    """Holds memory of the device in a process without PyTorch's allocator."""
    cuda, address, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib * MIB)) == 0
    ready.set()
    done.wait()


def outside(kept, is_mended):
    if not is_mended:
        # A separate process, forked so that it does not import this module again.
        start = multiprocessing.get_context("fork")
        ready, done = start.Event(), start.Event()
        holder = start.Process(target=hold_memory, args=(2560, ready, done), daemon=True)
        holder.start()
        assert ready.wait(60)
    kept.append(block(1200))
    free, total = torch.cuda.mem_get_info()
    return 600, lambda: total - free - counter("reserved_bytes")


def size(kept):
    kept.append(block(700))
    free = torch.cuda.mem_get_info()[0]
    # The allocator can have 960 MiB in total here.
    return 400, lambda: 400 * MIB - free


def fragmentation(kept):
    holes, stay = segments_with_holes(14)
    kept += stay
    holes.clear()
    return 200, unused


OF_PROGRAM = (pending, other_pool, limit, outside)


def main():
    case, is_mended = sys.argv[1], "mended" in sys.argv[2:]
    plant, kept = globals()[case], []
    request, planted = plant(kept, is_mended) if plant in OF_PROGRAM else plant(kept)
    try:
        kept.append(block(request))
    except torch.cuda.OutOfMemoryError:
        print(json.dumps({"cause": case, "bytes": planted()}), flush=True)
        return
    print(json.dumps({"peak_reserved_bytes": torch.cuda.max_memory_reserved()}), flush=True)


if __name__ == "__main__":
    main()
