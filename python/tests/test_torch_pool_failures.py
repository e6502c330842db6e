"""The checking mode of `vramscope.torch.use_pool` on a full GPU, after failed captures, and at the end of a program."""

import json
from pathlib import Path

from torch_on_phantom import TRAIN, needs_torch, python

pytestmark = needs_torch

MIB = 1 << 20
# The step of the plan: sizes in MiB, on the default stream, one behind the other.
STEP = [40, 10, 80, 20, 60]
BEGIN = """
import ctypes, random, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
import vramscope.torch
MIB = 1 << 20
pool = vramscope.torch.use_pool(plan="run.plan", check=True)
def empty(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")
def fails(call, *arguments):
    try:
        call(*arguments)
    except torch.OutOfMemoryError:
        return True
    return False
def planned():
    return pool.plan_use()["planned"][0]
def at_rest():
    # The current counters that are not 0, and the memory in use on the GPU, in MiB.
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    stats = torch.cuda.memory_stats()
    used = {name: value for name, value in stats.items() if name.endswith(".current") and value}
    free, total = torch.cuda.mem_get_info()
    return used, (total - free) // MIB
torch.cuda.init()
"""


def prints(folder: Path, program: str, memory: str = "400MiB") -> list[str]:
    """Returns the lines of a program that ends well on a GPU of this size, beside its context."""
    places = [sum(STEP[:index]) for index in range(len(STEP))]
    step = [[size * MIB, 0, place * MIB] for size, place in zip(STEP, places, strict=True)]
    whole = {"vramscope_plan": 1, "segments": [sum(STEP) * MIB], "startup": [], "step": step}
    (folder / "run.plan").write_text(json.dumps(whole))
    text = "import sys; sys.stdout = open('output', 'w')\n" + BEGIN + program + "\nprint('end', flush=True)"
    done = python(folder, text, options=["--memory", memory, "--context", "0"])
    lines = (folder / "output").read_text().splitlines()
    assert lines[-1:] == ["end"], done.stderr + done.stdout
    # 1: the program does not fit, because a request failed; 2: it did not finish.
    assert done.returncode in (0, 1), done.stderr + done.stdout
    assert "panicked" not in done.stderr, done.stderr
    return lines[:-1]


def test_out_of_memory_in_the_middle_of_a_plan_ends_only_that_request(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        """
for _ in range(3):
    first, second, third = empty(40), empty(10), empty(80)
    del first
    # It fits beside the 90 MiB in use, because free pages of the plan are released.
    other = empty(300)
    print(torch.cuda.memory_reserved() // MIB, fails(empty, 20))
    del other
    last = [empty(20), empty(60)]
    print(torch.cuda.memory_allocated() // MIB, torch.cuda.memory_stats()["num_ooms"])
    del second, third, last
before = planned()
for _ in range(3):
    for _ in range(2):
        step = [empty(mib) for mib in (40, 10, 80, 20, 60)]
        del step
    print(planned() - before)
print(at_rest())
""",
    )
    assert lines[:6] == ["390 True", "170 1", "390 True", "170 2", "390 True", "170 3"]
    # The plan resumes, and has all requests of the last two steps.
    *_, before_last, last, rest = lines[6:]
    assert int(last) - int(before_last) == 2 * len(STEP)
    assert rest == "({}, 0)"


def test_sixteen_threads_on_a_full_gpu_lose_no_memory(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        """
cuda = ctypes.CDLL("libcuda.so.1")
def take_memory(until):
    # Takes memory of the GPU beside the pool, so that the GPU refuses requests of the pool at any time.
    chance, address, refused = random.Random(1), ctypes.c_uint64(), 0
    cuda.cuCtxSetCurrent(context)
    while not until.is_set():
        size = chance.randint(20, 200) * MIB
        if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
            refused += 1
        else:
            time.sleep(0.001)
            assert cuda.cuMemFree_v2(address) == 0
    return refused
def work(seed):
    chance, live, refused = random.Random(seed), [], 0
    streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
    for _ in range(1500):
        size = chance.choice([chance.randint(1, 4000) / MIB, chance.randint(1, 12), 40, 10, 80, 20, 60])
        try:
            with torch.cuda.stream(chance.choice(streams)):
                live.append(empty(size))
        except torch.OutOfMemoryError:
            refused += 1
            live = live[: len(live) // 2]
            continue
        if chance.random() < 0.2:
            live[-1].record_stream(chance.choice(streams))
        if len(live) > 4:
            live.pop(chance.randrange(len(live)))
    return refused
context = ctypes.c_void_p()
cuda.cuCtxGetCurrent(ctypes.byref(context))
done = threading.Event()
def step():
    blocks = [empty(mib) for mib in (40, 10, 80, 20, 60)]
for _ in range(3): step()
before = planned()
with ThreadPoolExecutor(17) as threads:
    other = threads.submit(take_memory, done)
    try:
        refused = list(threads.map(work, range(16)))
    finally:
        done.set()
    print(other.result() > 0, sum(refused) > 100, torch.cuda.memory_stats()["num_ooms"] == sum(refused))
for _ in range(10): step()
print(before == 15 and planned() >= before + 10)
print(at_rest())
print(len([empty(mib) for mib in (200, 150)]))
""",
    )
    assert lines == ["True True True", "True", "({}, 0)", "2"]


def test_a_capture_that_fails_in_the_middle_of_a_plan_loses_no_memory(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        """
def step(capture):
    first, second = empty(40), empty(10)
    try:
        capture()
    except (torch.OutOfMemoryError, ZeroDivisionError) as error:
        print(type(error).__name__)
    third = empty(80)
    last = [empty(20), empty(60)]
def out_of_memory():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        kept = empty(30)
        temporary = empty(8)
        del temporary
        empty(500)
def exception():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        kept = empty(30)
        1 / 0
def nothing():
    pass
for capture in (nothing, out_of_memory, exception, nothing, nothing):
    step(capture)
    print(planned(), pool.plan_use()["differing"][0])
print(at_rest())
""",
    )
    assert lines == [
        "5 0",
        "OutOfMemoryError",
        "10 5",
        "ZeroDivisionError",
        "15 8",
        "20 8",
        "25 8",
        "({}, 0)",
    ]


def test_a_program_may_end_with_live_tensors_of_every_kind(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        """
part = vramscope.torch.mem_pool("expandable_segments:True")
with part:
    inside = empty(10)
side = torch.cuda.Stream()
planned_tensors = [empty(mib) for mib in (40, 10, 80)]
planned_tensors[0].record_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = torch.zeros(1000, device="cuda")
print(fails(empty, 500))
class Cycle:
    pass
cycle = Cycle()
cycle.itself, cycle.tensor = cycle, empty(5)
del cycle
def work():
    while True:
        kept = [empty(1), empty(3)]
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
[thread.start() for thread in threads]
time.sleep(0.2)
print(all(thread.is_alive() for thread in threads))
""",
    )
    assert lines == ["True", "True"]


def test_training_continues_after_an_out_of_memory_error(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        TRAIN.replace("import torch, sys", "import torch")
        + """
for _ in range(3): step()
large = []
while not fails(lambda: large.append(empty(64))):
    pass
print(len(large) > 3)
large.clear()
for _ in range(3): step()
del model, optimizer
torch._C._cuda_clearCublasWorkspaces()
print(at_rest() == ({}, 0))
""",
    )
    assert lines == ["True", "True"]
