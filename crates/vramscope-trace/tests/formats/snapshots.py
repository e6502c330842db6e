"""Writes small snapshots in the forms of other devices and tools.

    snapshots.py FOLDER

The samples `rocm`, `xpu`, `npu`, `pinned` and `mlx` in fuzz/corpus/read are its output. The first four have the keys that PyTorch and
torch_npu write, and follow their allocators' rules. `mlx` follows the proposal of MLX's recorder (ml-explore/mlx#3954).
"""

import pathlib
import pickle
import sys

MIB = 1 << 20
BEGIN_US = 1790000000000000
SMALL, LARGE, HOST = 0x7F0000000000, 0x7F0010000000, 0x7E0000000000


def frames(*places):
    """Returns a stack, innermost frame first."""
    return [{"filename": file, "line": line, "name": name} for file, line, name in places]


class Recording:
    """The events of one device. `leaves_out` names keys that its entries lack."""

    def __init__(self, stack, leaves_out=()):
        self.stack, self.leaves_out, self.events = stack, leaves_out, []

    def add(self, action, address, size, **more):
        time_us = BEGIN_US + 10 * len(self.events)
        entry = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": time_us,
            "frames": self.stack,
            **more,
        }
        self.events.append({key: value for key, value in entry.items() if key not in self.leaves_out})

    def free(self, address, size):
        self.add("free_requested", address, size)
        self.add("free_completed", address, size)


def block(address, size, requested, stack):
    """Returns a block of the end state. It is inactive without a requested size."""
    state = "active_allocated" if requested else "inactive"
    return {
        "address": address,
        "size": size,
        "requested_size": requested or 0,
        "state": state,
        "frames": stack if requested else [],
    }


def segment(address, size, kind, blocks):
    live = [b for b in blocks if b["state"] == "active_allocated"]
    total, requested = (sum(b[key] for b in live) for key in ("size", "requested_size"))
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": total,
        "active_size": total,
        "requested_size": requested,
        "stream": 0,
        "segment_type": kind,
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def device(stack, padding=0, leaves_out=()):
    """Returns the segments and events of a device that splits a small segment and a large one. Each request is padded."""

    def rounded(size):
        return (size + padding + 511) // 512 * 512

    recording = Recording(stack, leaves_out)
    first, second, third = 1000, 600, 400
    recording.add("segment_alloc", SMALL, 2 * MIB)
    recording.add("alloc", SMALL, first)
    recording.add("alloc", SMALL + rounded(first), second)
    recording.free(SMALL, first)
    recording.add("alloc", SMALL, third)
    recording.add("segment_alloc", LARGE, 20 * MIB)
    recording.add("alloc", LARGE, 3 * MIB)
    kept = SMALL + rounded(first)
    end = kept + rounded(second)
    small = [
        block(SMALL, rounded(third), third, stack),
        block(SMALL + rounded(third), rounded(first) - rounded(third), None, stack),
        block(kept, rounded(second), second, stack),
        block(end, SMALL + 2 * MIB - end, None, stack),
    ]
    size = rounded(3 * MIB)
    large = [block(LARGE, size, 3 * MIB, stack), block(LARGE + size, 20 * MIB - size, None, stack)]
    segments = [segment(SMALL, 2 * MIB, "small", small), segment(LARGE, 20 * MIB, "large", large)]
    return {"segments": segments, "device_traces": [recording.events]}


def rocm():
    stack = frames(
        ("HIPCachingAllocator.cpp", 0, "c10::hip::HIPCachingAllocator::allocate()"), ("train.py", 12, "step")
    )
    settings = {"PYTORCH_HIP_ALLOC_CONF": "", "expandable_segments": False, "max_split_size": -1}
    return {**device(stack), "allocator_settings": settings}


def xpu():
    settings = {"PYTORCH_ALLOC_CONF": "", "expandable_segments": False}
    return {**device(frames(("train.py", 12, "step"))), "allocator_settings": settings}


def npu():
    stack = frames(("/venv/torch_npu/npu/memory.py", 80, "caching_allocator_alloc"), ("train.py", 12, "step"))
    return device(stack, padding=32, leaves_out=("time_us",))


def pinned():
    """A device, and host memory whose blocks are powers of two."""
    stack = frames(("loader.py", 7, "pin"))
    recording = Recording(stack)
    recording.add("segment_alloc", HOST, 4096)
    recording.add("alloc", HOST, 3000)
    recording.add("segment_alloc", HOST + 4096, 8192)
    recording.add("alloc", HOST + 4096, 5000)
    recording.free(HOST, 3000)
    recording.add("alloc", HOST, 2500)
    blocks = [block(HOST, 4096, 2500, stack), block(HOST + 4096, 8192, 5000, stack)]
    segments = [segment(b["address"], b["size"], "small", [b]) for b in blocks]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "max_split_size": -1}
    cuda = device(frames(("train.py", 12, "step")))
    return {**cuda, "allocator_settings": settings, "host_segments": segments, "host_traces": [recording.events]}


def mlx():
    """Buffers of 16 KiB pages, of which some are taken from MLX's cache."""
    recording = Recording(frames(("train.py", 20, "loss"), ("train.py", 31, "<module>")))

    def of(primitive):
        return {"category": primitive, "user_metadata": primitive}

    parameters = 64 * 1024
    recording.add("segment_alloc", SMALL, parameters, **of("RandomBits"))
    recording.add("alloc", SMALL, parameters, **of("RandomBits"))
    for step in range(4):
        for index, (primitive, size) in enumerate((("Matmul", 32 * 1024), ("Add", 16 * 1024))):
            address = LARGE + index * MIB
            if step == 0:
                recording.add("segment_alloc", address, size, **of(primitive))
            recording.add("alloc", address, size, **of(primitive))
        recording.add("free_completed", LARGE, 32 * 1024)
        recording.add("free_completed", LARGE + MIB, 16 * 1024)
    recording.add("segment_free", LARGE, 32 * 1024)
    recording.add("segment_free", LARGE + MIB, 16 * 1024)
    return {"segments": [], "device_traces": [recording.events]}


def main(folder):
    for make in (rocm, xpu, npu, pinned, mlx):
        (pathlib.Path(folder) / make.__name__).write_bytes(pickle.dumps(make(), protocol=4))


if __name__ == "__main__":
    main(sys.argv[1])
