"""A small serving program with the file and function names of vLLM: weights, a paged KV cache, 20 graph sizes, sleep and wake."""

import ctypes
import json
import os
import sys

import torch
from torch import nn

WIDTH, LAYERS, BLOCKS, BLOCK_TOKENS = 1024, 4, 256, 16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class GPUModelRunner:
    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.mapped_bytes.restype = ctypes.c_size_t
        allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "my_malloc", "my_free")
        self.pools = {tag: torch.cuda.MemPool(allocator.allocator()) for tag in ("weights", "kv_cache")}
        self.counted = {}

    def counts(self, name, work):
        """Runs a part; counts the bytes that it leaves allocated and reserved, and the most that it has allocated."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        work()
        torch.cuda.synchronize()
        after = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        peak = torch.cuda.max_memory_allocated() - before[0]
        self.counted[name] = {"allocated": after[0] - before[0], "reserved": after[1] - before[1], "peak": peak}

    def load_model(self):
        with torch.cuda.use_mem_pool(self.pools["weights"]):
            self.model = nn.Sequential(*(Layer() for _ in range(LAYERS))).half().cuda()

    def _allocate_kv_cache_tensors(self):
        with torch.cuda.use_mem_pool(self.pools["kv_cache"]):
            size = 2 * BLOCKS * BLOCK_TOKENS * WIDTH * 2
            self.kv_caches = [torch.zeros(size, dtype=torch.int8, device="cuda") for _ in range(LAYERS)]

    def profile_run(self):
        with torch.inference_mode():
            self.model(torch.zeros(2048, WIDTH, dtype=torch.half, device="cuda"))

    def capture_model(self):
        self.graphs, self.outputs = [], []
        self.inputs = torch.zeros(1280, WIDTH, dtype=torch.half, device="cuda")
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()
        for size in range(1280, 0, -64):
            graph = torch.cuda.CUDAGraph()
            torch.cuda.empty_cache()
            before = pools().get(str(pool), [0, 0, 0])
            with torch.inference_mode(), torch.cuda.graph(graph, pool=pool, stream=stream):
                self.outputs.append(self.model(self.inputs[:size]))
            after = pools()[str(pool)]
            self.captured.append({"size": size, "reserved": after[1] - before[1], "allocated": after[2] - before[2]})
            self.graphs.append(graph)

    def execute_model(self):
        for graph in self.graphs:
            graph.replay()

    def sleep(self):
        self.lib.sleep_all()

    def wake_up(self):
        assert self.lib.wake_all() == 0


def pools():
    """PyTorch's own account of each pool: segments, reserved and allocated bytes."""
    counted = {}
    for segment in torch.cuda.memory_snapshot():
        pool = counted.setdefault(str(segment["segment_pool_id"]), [0, 0, 0])
        for i, n in enumerate((1, segment["total_size"], segment["allocated_size"])):
            pool[i] += n
    return counted


def main():
    runner = GPUModelRunner(os.environ["CUMEM"])
    runner.captured = []
    torch.zeros(1, device="cuda")
    runner.counts("weights", runner.load_model)
    # cuBLAS takes its workspace in the first product.
    runner.counts("warm_up", runner.profile_run)
    runner.counts("activations", runner.profile_run)
    runner.counts("kv_cache", runner._allocate_kv_cache_tensors)
    runner.counts("graphs", runner.capture_model)
    runner.execute_model()
    mapped = runner.lib.mapped_bytes()
    runner.sleep()
    asleep = runner.lib.mapped_bytes(), torch.cuda.memory_reserved()
    runner.wake_up()
    runner.execute_model()
    counted = {
        "parts": runner.counted,
        "captures": runner.captured,
        "mapped": [mapped, *asleep, runner.lib.mapped_bytes()],
        "pools": pools(),
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
    }
    with open(sys.argv[1], "w") as out:
        json.dump(counted, out, indent=1)
    return runner


if __name__ == "__main__":
    runner = main()
