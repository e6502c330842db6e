"""Writes a recording and a trace of `torch.profiler` of the same made-up run: `python bench/operators/write.py FOLDER [OPERATORS]`.

The trace has OPERATORS events of the host (1,000,000 unless given): annotated steps and layers, operators in three levels, and a call of
the CUDA runtime for each kernel. It also has the kernels on two streams, and the memory events of the recording. FOLDER gets `run.json`
and `trace.json`. Both show in the page with `vramscope view --operators FOLDER/trace.json FOLDER/run.json`.
"""

import json
import random
import sys
from pathlib import Path

BASE_NS = 1_700_000_000_000_000_000
THREAD = 4711
LAYERS = [f"layer.{n}" for n in range(24)]
OPERATORS = [("aten::linear", "aten::addmm", "gemm"), ("aten::layer_norm", "aten::native_layer_norm", "norm"),
             ("aten::gelu", "aten::gelu_", "elementwise"), ("aten::matmul", "aten::bmm", "bmm"),
             ("aten::softmax", "aten::_softmax", "softmax"), ("aten::add", "aten::add_", "elementwise")]


class Run:
    """The events so far. Times are microseconds since the base time."""

    def __init__(self, trace, wanted):
        self.trace = trace
        self.wanted = wanted
        self.hosts = 0
        self.now = 0.0
        self.free_streams = [0.0, 0.0]
        self.events = []
        self.addresses = []
        self.live = []
        self.random = random.Random(7)
        self.between = "\n"

    def row(self, **row):
        self.trace.write(self.between + json.dumps(row, separators=(",", ":")))
        self.between = ",\n"

    def host(self, category, name, begin, args):
        self.hosts += 1
        self.row(ph="X", cat=category, name=name, pid=1, tid=THREAD, ts=round(begin, 3),
                 dur=round(self.now - begin, 3), args=args)

    def memory(self, address, size):
        at = round(self.now, 3)
        self.row(ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=1, tid=THREAD, ts=at,
                 args={"Total Reserved": 0, "Bytes": size, "Device Id": 0, "Device Type": 1, "Addr": address})
        action = {"action": "alloc" if size > 0 else "free_completed", "addr": address, "size": abs(size), "stream": 0,
                  "frames": [], "time_us": (BASE_NS + int(at * 1000)) // 1000}
        self.events.append(action)

    def allocate(self):
        size = 512 * self.random.randrange(1, 4096)
        address = self.addresses.pop() if self.addresses else (1 << 40) + len(self.live) * (2 << 20)
        self.live.append((address, size))
        self.memory(address, size)

    def free(self):
        address, size = self.live.pop(self.random.randrange(len(self.live)))
        self.addresses.append(address)
        self.memory(address, -size)

    def operator(self, outer, inner, kernel):
        begin, external = self.now, 2 * self.hosts + 1
        self.now += 1.2
        inner_begin = self.now
        self.now += 0.8
        if self.random.random() < 0.6:
            self.allocate()
        call = self.now
        self.now += 2.5
        self.host("cuda_runtime", "cudaLaunchKernel", call,
                  {"External id": external + 1, "cbid": 211, "correlation": external})
        stream = self.random.randrange(2)
        at = max(self.now + 3, self.free_streams[stream])
        took = self.random.uniform(2, 14)
        self.free_streams[stream] = at + took + 0.5
        self.row(ph="X", cat="kernel", name=f"void {kernel}_kernel<float, 4>(float*, float const*)", pid=0, tid=7 + stream,
                 ts=round(at, 3), dur=round(took, 3), args={"External id": external + 1, "queued": 0, "device": 0, "context": 1,
                 "stream": 7 + stream, "correlation": external, "grid": [128, 1, 1], "block": [256, 1, 1]})
        self.now += 0.5
        self.host("cpu_op", inner, inner_begin, {"External id": external + 1, "Record function id": 0, "Ev Idx": self.hosts})
        self.now += 0.4
        self.host("cpu_op", outer, begin, {"External id": external, "Record function id": 0, "Ev Idx": self.hosts})
        self.now += self.random.uniform(0.2, 4)

    def step(self, number):
        begin = self.now
        for layer in LAYERS:
            if self.hosts >= self.wanted:
                break
            layer_begin = self.now
            for operator in OPERATORS:
                self.operator(*operator)
            self.host("user_annotation", layer, layer_begin, {"External id": 0})
        while len(self.live) > 40:
            self.free()
            self.now += 0.3
        self.host("user_annotation", f"ProfilerStep#{number}", begin, {"External id": 0})
        self.now += 50


def main():
    folder, wanted = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with open(folder / "trace.json", "w", encoding="utf-8") as trace:
        trace.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [')
        run = Run(trace, wanted)
        number = 0
        while run.hosts < wanted:
            run.step(number)
            number += 1
        trace.write(f'\n], "baseTimeNanoseconds": {BASE_NS}}}\n')
    with open(folder / "run.json", "w", encoding="utf-8") as recording:
        json.dump({"segments": [], "device_traces": [run.events]}, recording)
    print(f"{run.hosts:,} events of the host, {len(run.events):,} allocations and frees, {number} steps")


if __name__ == "__main__":
    main()
