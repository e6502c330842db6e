"""A small serving program with the file and function names of vLLM: weights, a paged KV cache, 20 graph sizes, sleep and wake.

    gpu_model_runner.py OUT [WIDTH LAYERS BLOCKS]

Needs the library of cumem.c as CUMEM. Writes to OUT what PyTorch and the driver count for each part, and the blocks of the program's own
tensors.
"""

import ctypes
import json
import os
import sys

import torch
from torch import nn

BLOCK_TOKENS, MOST_TOKENS, GRAPH_STEP = 16, 1280, 64


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class GPUModelRunner:
    def __init__(self, library, width=1024, layers=4, blocks=256):
        self.width, self.layers, self.blocks = width, layers, blocks
        self.lib = ctypes.CDLL(library)
        self.lib.mapped_bytes.restype = ctypes.c_size_t
        allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "my_malloc", "my_free")
        self.pools = {tag: torch.cuda.MemPool(allocator.allocator()) for tag in ("weights", "kv_cache")}
        self.counted, self.captured = {}, []

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
            self.model = nn.Sequential(*(Layer(self.width) for _ in range(self.layers))).half().cuda()

    def _allocate_kv_cache_tensors(self):
        with torch.cuda.use_mem_pool(self.pools["kv_cache"]):
            size = 2 * self.blocks * BLOCK_TOKENS * self.width * 2
            self.kv_caches = [torch.zeros(size, dtype=torch.int8, device="cuda") for _ in range(self.layers)]

    def profile_run(self):
        with torch.inference_mode():
            self.model(torch.zeros(2048, self.width, dtype=torch.half, device="cuda"))

    def capture_model(self):
        self.graphs, self.outputs = [], []
        self.inputs = torch.zeros(MOST_TOKENS, self.width, dtype=torch.half, device="cuda")
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()
        for size in range(MOST_TOKENS, 0, -GRAPH_STEP):
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

    def tagged(self):
        """The blocks of the tensors of each part, as PyTorch's list of segments has them."""
        sizes = {b["address"]: b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"]}
        weights = [*self.model.parameters(), *self.model.buffers()]
        parts = {"weights": weights, "kv_cache": self.kv_caches, "graphs": self.outputs, "inputs": [self.inputs]}
        return {name: sum(sizes[tensor.data_ptr()] for tensor in tensors) for name, tensors in parts.items()}

    def state(self):
        """What PyTorch and the driver count now, and the bytes that are mapped in the pools of sleep mode."""
        free, total = torch.cuda.mem_get_info()
        return {
            "allocated": torch.cuda.memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            "used": total - free,
            "mapped": self.lib.mapped_bytes(),
        }


def pools():
    """PyTorch's own account of each pool: segments, reserved and allocated bytes."""
    counted = {}
    for segment in torch.cuda.memory_snapshot():
        pool = counted.setdefault(str(segment["segment_pool_id"]), [0, 0, 0])
        for i, n in enumerate((1, segment["total_size"], segment["allocated_size"])):
            pool[i] += n
    return counted


def main(out, *sizes):
    runner = GPUModelRunner(os.environ["CUMEM"], *map(int, sizes))
    torch.zeros(1, device="cuda")
    runner.counts("weights", runner.load_model)
    # cuBLAS takes its workspace in the first product.
    runner.counts("warm_up", runner.profile_run)
    runner.counts("activations", runner.profile_run)
    runner.counts("kv_cache", runner._allocate_kv_cache_tensors)
    runner.counts("graphs", runner.capture_model)
    runner.execute_model()
    states = [runner.state()]
    for _ in range(2):
        runner.sleep()
        states.append(runner.state())
        runner.wake_up()
        runner.execute_model()
        states.append(runner.state())
    counted = {
        "parts": runner.counted,
        "captures": runner.captured,
        "tagged": runner.tagged(),
        "states": states,
        "pools": pools(),
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
    }
    with open(out, "w") as file:
        json.dump(counted, file, indent=1)
    return runner


if __name__ == "__main__":
    runner = main(*sys.argv[1:])
