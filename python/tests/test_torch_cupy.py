"""CuPy and PyTorch in one pool, on phantom GPUs. `./test --cupy` makes a Python with both, after `./test --torch`."""

import bisect
import pickle
from pathlib import Path

import pytest
from torch_on_phantom import COMMAND, PYTHON, can_import, python

pytestmark = pytest.mark.skipif(
    not (PYTHON and COMMAND and can_import("cupy", "torch")), reason="needs torch and cupy: ./test --cupy"
)

BOTH = """
import random, sys, warnings
import cupy, torch
import vramscope, vramscope.cupy, vramscope.torch
warnings.simplefilter("ignore", DeprecationWarning)
pool = vramscope.torch.use_pool(check=True)
shared = vramscope.cupy.use_pool()
def of_torch(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
def of_cupy(size):
    return cupy.cuda.alloc(size)
"""


def prints(folder: Path, program: str) -> list[str]:
    """Returns the lines of a program that ends well. The phantom's own report goes to the standard output."""
    # CuPy built without CUDA reports two devices.
    done = python(folder, "import sys; sys.stdout = open('output', 'w')\n" + program + "\nprint('end')", gpus=2)
    lines = (folder / "output").read_text().splitlines()
    assert lines[-1:] == ["end"], done.stderr + done.stdout
    return lines[:-1]


def test_memory_that_one_has_freed_serves_the_other(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        BOTH
        + """
a = of_torch(30 << 20)
address = a.data_ptr()
del a
b = of_cupy(30 << 20)
print(b.ptr == address, shared.total_bytes() >> 20, shared.shares())
del b
c = of_torch(30 << 20)
print(c.data_ptr() == address, shared.total_bytes() >> 20, shared.shares())
print(cupy.get_default_memory_pool() is shared, torch.cuda.memory_allocated() == shared.used_bytes())
with torch.cuda.stream(torch.cuda.Stream()):
    d = of_torch(30 << 20)
del c
e = of_cupy(30 << 20)
print(e.ptr == address, d.data_ptr() != address, shared.n_free_blocks(), shared.free_bytes())
del d, e
shared.free_all_blocks()
print(shared.total_bytes(), torch.cuda.memory_reserved())
""",
    )
    assert lines == [
        f"True 30 {{'cupy': {30 << 20}, 'torch': 0}}",
        f"True 30 {{'cupy': 0, 'torch': {30 << 20}}}",
        "True True",
        "True True 0 0",
        "0 0",
    ]


def test_a_limit_holds_for_both(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        BOTH
        + """
shared.set_limit(size=64 << 20)
kept = of_torch(40 << 20)
try:
    of_cupy(40 << 20)
except cupy.cuda.memory.OutOfMemoryError as error:
    print(error)
other = of_cupy(20 << 20)
try:
    of_torch(20 << 20)
except torch.OutOfMemoryError as error:
    print(str(error)[:19], shared.get_limit() >> 20)
shared.set_limit()
print(of_torch(20 << 20).is_cuda, shared.get_limit())
for wrong in ({"size": 1, "fraction": 0.5}, {"fraction": 2.0}, {"size": -1}):
    try:
        shared.set_limit(**wrong)
    except ValueError as error:
        print(error)
""",
    )
    assert lines[0].startswith(
        "Out of memory allocating 41,943,040 bytes (allocated so far: 41,943,040 bytes, limit set to:"
    )
    assert lines[1:3] == ["CUDA out of memory. 64", "True 0"]
    assert lines[3:] == [
        "size and fraction cannot be specified at one time",
        "memory limit fraction out of range: 2.0",
        "memory limit size out of range: -1",
    ]


def test_each_framework_has_a_limit_of_its_own(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        BOTH
        + """
MIB = 1 << 20
def fails(call, mib):
    try:
        call(mib * MIB)
    except torch.OutOfMemoryError as error:
        return "torch", "32.00 MiB allowed for PyTorch" in str(error)
    except cupy.cuda.memory.OutOfMemoryError as error:
        return "cupy", str(error)
shared.set_limit(size=32 * MIB, framework="torch")
shared.set_limit(size=16 * MIB, framework="cupy")
kept, other = of_torch(30 * MIB), of_cupy(10 * MIB)
reserved = shared.total_bytes()
print(fails(of_torch, 3), torch.cuda.memory_stats()["num_ooms"])
print(fails(of_cupy, 7))
# A refused request takes no memory.
print(shared.total_bytes() == reserved, shared.shares())
more = of_torch(2 * MIB), of_cupy(6 * MIB)
print(shared.shares())
# A limit below the blocks in use refuses new requests only.
shared.set_limit(size=1 * MIB, framework="torch")
print(fails(of_torch, 1)[0], shared.shares()["torch"] // MIB)
print(*(shared.get_limit(framework=name) // MIB for name in ("torch", "cupy")), shared.get_limit())
shared.set_limit(framework="torch")
shared.set_limit(size=0, framework="cupy")
print(of_torch(100 * MIB).is_cuda, of_cupy(100 * MIB).ptr > 0)
for wrong in ({"size": -1, "framework": "cupy"}, {"size": 1, "framework": "jax"}):
    try:
        shared.set_limit(**wrong)
    except ValueError as error:
        print(error)
del kept, other, more
torch.cuda.empty_cache()
print(shared.shares(), shared.total_bytes())
""",
    )
    assert lines == [
        "('torch', True) 0",
        "('cupy', 'Out of memory allocating 7,340,032 bytes (allocated so far: 10,485,760 bytes, "
        "limit set to: 16,777,216 bytes).')",
        f"True {{'cupy': {10 << 20}, 'torch': {30 << 20}}}",
        f"{{'cupy': {16 << 20}, 'torch': {32 << 20}}}",
        "torch 32",
        "1 16 0",
        "True True",
        "memory limit size out of range: -1",
        "framework must be 'cupy' or 'torch', not 'jax'",
        "{'cupy': 0, 'torch': 0} 0",
    ]


def test_threads_of_both_never_exceed_their_limits(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        BOTH
        + """
from concurrent.futures import ThreadPoolExecutor
MIB = 1 << 20
shared.set_limit(size=40 * MIB, framework="torch")
shared.set_limit(size=20 * MIB, framework="cupy")
def work(seed):
    chance, live, refused, most = random.Random(seed), [], 0, {"cupy": 0, "torch": 0}
    for _ in range(1000):
        try:
            live.append((of_torch if seed % 2 else of_cupy)(chance.randint(1, 8 * MIB)))
        except (torch.OutOfMemoryError, cupy.cuda.memory.OutOfMemoryError):
            refused += 1
        if len(live) > 3:
            del live[chance.randrange(len(live))]
        most = {name: max(most[name], used) for name, used in shared.shares().items()}
    return refused, most
with ThreadPoolExecutor(8) as threads:
    results = list(threads.map(work, range(8)))
print(sum(refused for refused, _ in results) > 100)
print(max(most["torch"] for _, most in results) <= 40 * MIB, max(most["cupy"] for _, most in results) <= 20 * MIB)
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(shared.shares(), shared.total_bytes())
""",
    )
    assert lines == ["True", "True True", "{'cupy': 0, 'torch': 0} 0"]


def test_a_hundred_thousand_steps_of_both_on_several_streams(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        BOTH
        + """
pool.record_history(400_000)
chance = random.Random(7)
sides = [torch.cuda.Stream() for _ in range(3)]
streams = [(torch.cuda.default_stream(), cupy.cuda.Stream.null)]
streams += [(side, cupy.cuda.ExternalStream(side.cuda_stream)) for side in sides]
freed, reused, live = {}, {"torch": 0, "cupy": 0}, []
for step in range(100_000):
    if len(live) > 60 or (live and chance.random() < 0.4):
        kind, block, address = live.pop(chance.randrange(len(live)))
        if kind == "torch" and chance.random() < 0.3:
            block.record_stream(chance.choice(streams)[0])
        freed[address] = kind
        del block
        continue
    size = chance.choice([chance.randint(1, 4000), chance.randint(1, 1 << 20), chance.randint(1, 8 << 20)])
    theirs, ours = chance.choice(streams)
    if chance.random() < 0.5:
        with torch.cuda.stream(theirs):
            block = of_torch(size)
        kind, address = "torch", block.data_ptr()
    else:
        with ours:
            block = of_cupy(size)
        kind, address = "cupy", block.ptr
    reused[kind] += freed.pop(address, kind) != kind
    live.append((kind, block, address))
print(reused["torch"] > 1000, reused["cupy"] > 1000)
del block
live.clear()
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(shared.used_bytes(), shared.total_bytes(), shared.shares())
pool.dump_snapshot("run.pickle")
""",
    )
    assert lines == ["True True", "0 0 {'cupy': 0, 'torch': 0}"]
    with (tmp_path / "run.pickle").open("rb") as file:
        events = pickle.load(file)["device_traces"][0]
    requests = check(events)
    assert requests > 40_000, requests


def check(events: list[dict]) -> int:
    """Checks that no block overlaps another, and that each one is in a segment of its stream. Returns their number."""
    # Starts in order, and the end and the stream by start.
    starts: dict[str, list[int]] = {"blocks": [], "segments": []}
    ends: dict[str, dict[int, tuple[int, int]]] = {"blocks": {}, "segments": {}}

    def around(kind: str, address: int) -> int | None:
        index = bisect.bisect_right(starts[kind], address)
        return starts[kind][index - 1] if index else None

    def add(kind: str, start: int, size: int, stream: int) -> None:
        before, index = around(kind, start), bisect.bisect_left(starts[kind], start)
        assert before is None or ends[kind][before][0] <= start, (kind, before, start)
        assert index == len(starts[kind]) or start + size <= starts[kind][index], (kind, start)
        starts[kind].insert(index, start)
        ends[kind][start] = start + size, stream

    def remove(kind: str, start: int) -> None:
        del starts[kind][bisect.bisect_left(starts[kind], start)], ends[kind][start]

    requests = 0
    for event in events:
        start, size, stream = event["addr"], event["size"], event["stream"]
        match event["action"]:
            case "segment_alloc":
                add("segments", start, size, stream)
            case "segment_free":
                remove("segments", start)
            case "alloc":
                segment = around("segments", start)
                assert segment is not None
                assert ends["segments"][segment][0] >= start + size
                assert ends["segments"][segment][1] == stream, (segment, stream)
                add("blocks", start, size, stream)
                requests += 1
            # A block that another stream uses is free only after its events.
            case "free_completed":
                remove("blocks", start)
    assert not starts["blocks"]
    return requests


def test_a_broken_recording_fails_the_check() -> None:
    def event(action: str, start: int, size: int, stream: int) -> dict:
        return {"action": action, "addr": start, "size": size, "stream": stream}

    segment = event("segment_alloc", 0, 100, 1)
    with pytest.raises(AssertionError):
        check([segment, event("alloc", 0, 10, 1), event("alloc", 5, 10, 1)])
    with pytest.raises(AssertionError):
        check([segment, event("alloc", 0, 10, 2)])


def test_our_report_by_line_is_cupys_to_the_letter(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        BOTH
        + """
import io
from cupy.cuda import memory_hooks
from vramscope._native import TorchPool
theirs, ours = memory_hooks.LineProfileHook(), vramscope.LineProfileHook()
theirs.name = "Theirs"
def inner(chance, kept, depth):
    if depth and chance.random() < 0.7:
        inner(chance, kept, depth - 1)
    kept.append(of_torch(chance.randint(1, 3 << 20)))
    kept.append(of_cupy(chance.randint(1, 3000)))
    if len(kept) > 20:
        del kept[: chance.randint(1, 10)]
TorchPool.add_hook(theirs)
with ours:
    chance, kept = random.Random(3), []
    for _ in range(300):
        inner(chance, kept, 4)
TorchPool.remove_hook("Theirs")
texts = []
for hook in (theirs, ours):
    file = io.StringIO()
    hook.print_report(file)
    texts.append(file.getvalue())
print(texts[0] == texts[1], texts[0].count("inner") > 5, texts[0].splitlines()[0])
""",
    )
    assert lines[0].startswith("True True _root (")
    assert not lines[0].endswith(", 0.00B)")


def test_cupy_alone_has_the_pool_too(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        """
import cupy
import vramscope, vramscope.cupy
pool = vramscope.cupy.use_pool(check=True)
class Counts(vramscope.MemoryHook):
    name, sizes = "Counts", []
    def malloc_postprocess(self, **words):
        self.sizes.append(words["mem_size"])
with Counts() as hook:
    a, b = cupy.cuda.alloc(700), cupy.cuda.alloc(5000)
print(hook.sizes, pool.used_bytes(), pool.total_bytes(), pool.shares())
print(vramscope.cupy.use_pool() is pool)
""",
    )
    assert lines == ["[1024, 5120] 6144 6144 {'cupy': 6144, 'torch': 0}", "True"]
