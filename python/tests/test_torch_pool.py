"""`vramscope.torch.use_pool` on a phantom GPU; `./test --torch` provides the Python and the command."""

import os
import subprocess
import sys
from pathlib import Path

from torch_on_phantom import COMMAND, HERE, PYTHON, TRAIN, events, needs_torch, python

pytestmark = needs_torch

ACCEPTANCE = HERE.parents[1] / "acceptance/run.py"
POOL = """
import torch
import vramscope.torch
pool = vramscope.torch.use_pool(check=True)
"""


def prints(folder: Path, program: str, *arguments: str, gpus: int = 1, **environment: str) -> str:
    """Returns the output of a program that ends well. The phantom's own report goes to the standard output."""
    beginning = "import sys; sys.stdout = open('output', 'w')\n"
    done = python(folder, beginning + program + "\nprint('end')", *arguments, gpus=gpus, **environment)
    output = (folder / "output").read_text()
    assert output.endswith("end\n"), done.stderr + done.stdout
    return output.removesuffix("end\n").strip()


def test_the_pool_has_the_addresses_segments_and_counters_of_pytorch() -> None:
    done = subprocess.run(
        [sys.executable, ACCEPTANCE, "pool", "--vramscope", COMMAND, "--python", PYTHON, "--only", "mlp"],
        env={**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no failures in 3 cases" in done.stdout


def test_statistics_have_pytorchs_names(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
a = torch.empty(3_000_000, dtype=torch.uint8, device="cuda")
b = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
del b
stats = pool.stats()
print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved())
print(stats["segment.all.allocated"], stats["num_ooms"], stats["requested_bytes.all.current"])
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.max_memory_allocated())
torch.cuda.empty_cache()
print(torch.cuda.memory_reserved())
print("Allocated memory" in torch.cuda.memory_summary(), torch.cuda.get_allocator_backend())
""",
    )
    assert output.split() == (
        f"3000320 {3000320 + (1 << 30)} {(20 << 20) + (1 << 30)} 2 0 3000000 3000320 {20 << 20} True pluggable".split()
    )


def test_out_of_memory_is_pytorchs_exception(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda")]
for _ in range(2):
    try:
        kept.append(torch.empty(200 << 30, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        print(error)
torch.cuda.set_per_process_memory_fraction(0.02)
try:
    kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    print(error)
print(torch.cuda.memory_stats()["num_ooms"], torch.cuda.memory_allocated() >> 30)
""",
    )
    first, second, limited, counted = output.splitlines()
    assert first.startswith("CUDA out of memory. Tried to allocate 200.00 GiB. GPU 0 has a total capacity of ")
    assert " is free. Of the allocated memory 1024.00 MiB is allocated by PyTorch" in first
    assert second == first
    assert " allowed; " in limited
    assert counted == "3 1"


def test_the_pools_memory_queries_are_not_those_of_the_program(tmp_path: Path) -> None:
    query = "The program queried the total or free memory of the GPU"
    program = POOL + "a = torch.empty(1000, device='cuda')\n"
    assert query not in python(tmp_path, program).stdout
    assert query in python(tmp_path, program + "torch.cuda.mem_get_info()").stdout


def test_settings_are_those_of_the_variable_or_given(tmp_path: Path) -> None:
    program = """
import torch
import vramscope.torch
import sys
pool = vramscope.torch.use_pool(*sys.argv[1:])
a = torch.empty(3_000_000, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_reserved() >> 20, pool.stats()["segment.all.allocated"])
"""
    conf = "expandable_segments:True"
    assert prints(tmp_path, program) == "20 1"
    assert prints(tmp_path, program, PYTORCH_CUDA_ALLOC_CONF=conf) == "20 0"
    assert prints(tmp_path, program, "max_split_size_mb:64", PYTORCH_CUDA_ALLOC_CONF=conf) == "20 1"
    assert "ValueError: settings: " in python(tmp_path, program, "max_split_size_mb:none").stderr


def test_a_pool_comes_before_the_first_use_of_a_gpu_and_only_once(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        """
import torch
import vramscope
import vramscope.torch
try:
    vramscope.torch.use_pool("max_split_size_mb:1")
except ValueError as error:
    print(error)
vramscope.torch.use_pool()
for _ in range(2):
    try:
        vramscope.torch.use_pool()
    except vramscope.VramscopeError as error:
        print(error)
    torch.cuda.init()
""",
    )
    refused, twice, late = output.splitlines()
    assert refused.startswith("settings: ")
    assert twice == "this process has a pool already"
    assert late.startswith("PyTorch has used a GPU already; call use_pool before")


def test_sharing_with_other_processes_and_private_pools_are_refused_by_name(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
for call in (
    torch.empty(1000, device="cuda").untyped_storage()._share_cuda_,
    torch.cuda.MemPool,
):
    try:
        call()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
""",
    )
    lines = output.splitlines()
    assert len(lines) == 2
    assert all("does not yet support" in line for line in lines), lines


def test_a_forked_process_neither_allocates_nor_frees(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
import os, sys
a = torch.empty(1000, device="cuda")
functions = pool._native.functions()
pid = os.fork()
if pid == 0:
    import ctypes
    del a
    try:
        torch.empty(1000, device="cuda")
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(torch.cuda.memory_allocated())
""",
    )
    refused, allocated = output.splitlines()[0], output.splitlines()[-1]
    assert "fork" in refused or "parent process" in refused
    assert allocated == "4096"


def test_memory_used_by_another_stream_is_reused_after_its_event(tmp_path: Path) -> None:
    program = """
side = torch.cuda.Stream()
seen = []
for _ in range(50):
    a = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    a.record_stream(side)
    with torch.cuda.stream(side):
        b = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
        b.record_stream(torch.cuda.default_stream())
    del a, b
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(torch.cuda.memory_stats()["active_bytes.all.current"], torch.cuda.memory_reserved())
"""
    assert prints(tmp_path, POOL + program) == "0 0"


def test_cuda_graphs_are_captured_into_private_pools(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
outside, keeps_segment = (torch.empty(2 << 20, dtype=torch.uint8, device="cuda") for _ in range(2))
place = outside.data_ptr()
del outside
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    inside = torch.zeros(2 << 20, dtype=torch.uint8, device="cuda")
    temporary = torch.zeros(2 << 20, dtype=torch.uint8, device="cuda")
    used = temporary.data_ptr()
    del temporary
# Free memory of the graph's pool serves nothing else.
others = [torch.empty(2 << 20, dtype=torch.uint8, device="cuda") for _ in range(20)]
print(inside.data_ptr() != place, used not in {other.data_ptr() for other in others})
reserved = torch.cuda.memory_reserved()
graph.replay()
torch.cuda.empty_cache()
kept = torch.cuda.memory_reserved()
del graph, inside, others, keeps_segment
torch.cuda.empty_cache()
print(reserved == kept, torch.cuda.memory_reserved())
failed = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(failed):
        torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory")
print(torch.empty(1 << 20, dtype=torch.uint8, device="cuda").is_cuda)
""",
    )
    assert output.split() == ["True", "True", "True", "0", "out", "of", "memory", "True"]


def test_threads_never_get_the_same_memory(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
import random
from concurrent.futures import ThreadPoolExecutor
def work(seed):
    chance, live, streams = random.Random(seed), [], [torch.cuda.Stream() for _ in range(2)]
    for _ in range(2000):
        with torch.cuda.stream(chance.choice(streams)):
            live.append(torch.empty(chance.randint(1, 4 << 20), dtype=torch.uint8, device="cuda"))
        if chance.random() < 0.2:
            live[-1].record_stream(chance.choice(streams))
        if len(live) > 10:
            live.pop(chance.randrange(len(live)))
with ThreadPoolExecutor(16) as threads:
    # Raises the error of a thread.
    list(threads.map(work, range(16)))
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
""",
    )
    assert output == "0 0"


def test_a_program_may_end_with_live_tensors(tmp_path: Path) -> None:
    assert prints(tmp_path, POOL + TRAIN + "step()\nkept = torch.empty(1000, device='cuda')") == ""


def test_each_gpu_has_its_own_memory(tmp_path: Path) -> None:
    program = """
a = torch.empty(1000, device="cuda:1")
print(torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1), a.device.index)
"""
    assert prints(tmp_path, POOL + program, gpus=2) == "0 4096 1"


def plan(folder: Path, program: str, *options: str) -> None:
    """Runs a program that writes `run.pickle`, and plans it as `run.plan`."""
    recorded = python(folder, program)
    assert recorded.returncode == 0, recorded.stderr
    command = [COMMAND, "plan", "run.pickle", "-o", "run.plan", *options]
    planned = subprocess.run(command, cwd=folder, capture_output=True)
    assert planned.returncode == 0, planned.stderr


def test_requests_follow_a_plan(tmp_path: Path) -> None:
    program = """
import sys, torch
import vramscope.torch
pool = vramscope.torch.use_pool(plan=sys.argv[1] if sys.argv[1:] else None, check=True)
pool.record_history()
""" + TRAIN.replace("import torch, sys", "")
    plan(tmp_path, program + "for _ in range(6): step()\npool.dump_snapshot('run.pickle')")
    output = prints(
        tmp_path,
        program
        + """
for _ in range(6): step()
before = pool.plan_use()
print(before["planned"][0], sum(count for count, _ in before.values()))
other = torch.empty(12345, device="cuda")
step()
after = pool.plan_use()
print(after["differing"][0] - before["differing"][0] >= 1, after["planned"][0] > before["planned"][0])
""",
        "run.plan",
    )
    followed, requests, differs, resumes = output.split()
    assert int(followed) > 0.9 * int(requests), output
    assert (differs, resumes) == ("True", "True")


def test_a_plan_never_makes_a_run_fail_that_would_have_fitted(tmp_path: Path) -> None:
    (tmp_path / "run.plan").write_text(
        '{"vramscope_plan":1,"segments":[68719476736],"startup":[],"step":['
        + ",".join(f"[1073741824,0,{n << 30}]" for n in range(60))
        + "]}"
    )
    output = prints(
        tmp_path,
        """
import torch
import vramscope.torch
pool = vramscope.torch.use_pool(plan="run.plan", check=True)
for _ in range(60):
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_reserved() >> 30, pool.plan_use()["planned"])
large = torch.empty(70 << 30, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_reserved() >> 30)
""",
    )
    assert output.splitlines() == [f"60 (60, {60 << 30})", "70"]


# In each step, three streams need 40 MiB one after the other, and a small block that another stream uses too.
IN_TURN = """
import sys, time, torch
import vramscope.torch
plan = sys.argv[1] if sys.argv[1:] else None
pool = vramscope.torch.use_pool(plan=plan, share_streams=plan == "auto", check=True)
streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
def step():
    for number, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            block = torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
            small = torch.empty(1000 * (number + 1), device="cuda")
        small.record_stream(streams[0])
        del block, small
"""


def test_streams_share_the_memory_of_a_plan(tmp_path: Path) -> None:
    steps = IN_TURN + "\nfor _ in range(6): step()\n"
    recording = steps.replace("def step", "pool.record_history()\ndef step") + "pool.dump_snapshot('run.pickle')"
    plan(tmp_path, recording, "--share-streams")
    output = prints(
        tmp_path,
        steps
        + """
print(torch.cuda.max_memory_reserved() >> 20, {name: count for name, (count, _) in pool.plan_use().items()})
before = pool.plan_waits()
step()
print(pool.plan_waits() - before, torch.cuda.memory_allocated())
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
waits = pool.plan_waits()
step()
print(pool.plan_waits() - waits > 0)
""",
        "run.plan",
    )
    lines = output.splitlines()
    assert lines[0] == "42 {'differing': 0, 'in_use': 0, 'left': 0, 'no_memory': 0, 'planned': 36}", output
    # The large blocks of all streams, and the small ones if they share a place.
    waits, allocated = map(int, lines[1].split())
    assert 3 <= waits <= 6, output
    assert allocated == 0, output
    assert lines[2] == "True"


def test_streams_share_the_memory_of_a_plan_of_their_own_steps(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        IN_TURN
        + """
for steps in range(900):
    step()
    time.sleep(0.003)
    if pool.plan_use().get("planned", (0, 0))[0] > 60:
        break
torch.cuda.reset_peak_memory_stats()
before = pool.plan_waits()
for _ in range(10): step()
print(torch.cuda.max_memory_reserved() >> 20 <= 44, pool.plan_waits() - before >= 30)
""",
        "auto",
    )
    assert output == "True True"
    output = prints(
        tmp_path,
        """
import vramscope.torch
try:
    vramscope.torch.use_pool(share_streams=True)
except ValueError as error:
    print(error)
""",
    )
    assert output.startswith('share_streams needs plan="auto"')


def test_a_part_of_a_program_has_its_own_pool(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
import threading
def kinds(stats):
    return [stats[f"{name}.all.current"] >> 20 for name in ("allocated_bytes", "reserved_bytes")]
def empty(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
part = vramscope.torch.mem_pool("expandable_segments:True")
outside = empty(30)
with part as entered:
    inside = empty(5)
    with vramscope.torch.mem_pool() as other:
        nested = empty(2)
    thread = threading.Thread(target=lambda: empty(40))
    thread.start()
    thread.join()
after = empty(3)
print(*kinds(part.stats()), part.stats()["segment.all.allocated"], entered is part)
print(*kinds(other.stats()), other.stats()["segment.all.allocated"])
print(torch.cuda.memory_allocated() >> 20, torch.cuda.memory_reserved() >> 20, torch.cuda.max_memory_allocated() >> 20)
# Its free memory serves no other request until it is released.
place = inside.data_ptr()
del inside
print(empty(5).data_ptr() != place, kinds(part.stats()))
with part:
    print(empty(5).data_ptr() == place)
part.empty_cache()
print(*kinds(part.stats()))
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.max_memory_allocated() >> 20)
del outside, nested, after
torch.cuda.empty_cache()
print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
""",
    )
    lines = output.splitlines()
    assert lines[0] == "5 20 0 True"
    assert lines[1] == "2 20 1"
    # The last tensor reuses the segment of the thread.
    assert lines[2] == f"{30 + 5 + 2 + 3} {30 + 20 + 20 + 40} {30 + 5 + 2 + 40}"
    assert lines[3:] == ["True [0, 20]", "True", "0 0", "35", "0 0"]


def test_free_memory_of_a_part_is_released_when_others_need_it(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        POOL
        + """
def empty(gib):
    return torch.empty(gib << 30, dtype=torch.uint8, device="cuda")
part = vramscope.torch.mem_pool()
with part:
    empty(60)
outside = empty(50)
print(part.stats()["reserved_bytes.all.current"], torch.cuda.memory_reserved() >> 30)
del outside
with part:
    inside = empty(70)
print(torch.cuda.memory_reserved() >> 30, torch.cuda.memory_stats()["num_ooms"])
try:
    empty(50)
except torch.OutOfMemoryError as error:
    print(str(error)[:19])
""",
    )
    assert output.splitlines() == ["0 50", "70 0", "CUDA out of memory."]


def test_a_part_follows_a_plan_on_all_threads(tmp_path: Path) -> None:
    program = (
        """
import sys, torch
import vramscope.torch
pool = vramscope.torch.use_pool(check=True)
part = vramscope.torch.mem_pool(plan=sys.argv[1] if sys.argv[1:] else None, all_threads=True)
part.record_history()
"""
        + TRAIN.replace("import torch, sys", "")
        + """
with part:
    for _ in range(6): step()
"""
    )
    plan(tmp_path, program + "part.dump_snapshot('run.pickle')")
    output = prints(
        tmp_path,
        program
        + """
served = part.plan_use()
print(served["planned"][0], sum(count for count, _ in served.values()), pool.plan_use())
""",
        "run.plan",
    )
    followed, requests, nothing = output.split()
    assert nothing == "{}"
    assert int(followed) > 0.9 * int(requests) > 50, output


def test_pytorchs_own_mem_pool_takes_segments_from_the_pool(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        """
import torch
import vramscope
import vramscope.torch
allocator = vramscope.torch.segment_allocator("expandable_segments:True", check=True)
private = torch.cuda.MemPool(allocator)
def empty(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
outside = empty(3)
with torch.cuda.use_mem_pool(private):
    inside, large = empty(3), empty(100)
    # Out of memory is PyTorch's exception, and its allocator goes on.
    try:
        empty(100 << 10)
    except torch.OutOfMemoryError:
        print("out of memory")
segments = torch.cuda.memory_snapshot()
print(sorted(segment["total_size"] >> 20 for segment in segments if segment["segment_pool_id"] != (0, 0)))
print(torch.cuda.memory_allocated() >> 20, torch.cuda.get_allocator_backend())
print(vramscope.torch.segment_allocator() is allocator)
try:
    vramscope.torch.segment_allocator("max_split_size_mb:100")
except vramscope.VramscopeError as error:
    print(error)
try:
    vramscope.torch.mem_pool()
except vramscope.VramscopeError as error:
    print(error)
del inside, large, private
torch.cuda.empty_cache()
print(torch.cuda.memory_reserved() >> 20)
""",
    )
    lines = output.splitlines()
    assert lines[:4] == ["out of memory", "[20, 100]", "106 native", "True"]
    assert lines[4] == "this process has a pool already"
    assert lines[5].startswith("call vramscope.torch.use_pool() at the start")
    assert lines[6] == "20"


# Expandable segments need 60 MiB for the three large blocks of a step, of which 40 MiB are in use.
AUTO = """
import sys, time, torch
import vramscope.torch
pool = vramscope.torch.use_pool(plan="auto", check=True)
def empty(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
model = empty(30)
def step():
    small = [torch.empty(1000 * size, device="cuda") for size in range(1, 9)]
    first, second, third = empty(10), empty(20), empty(10)
    del first, third
    fourth = empty(20)
def counts():
    return {name: count for name, (count, _) in pool.plan_use().items()}
for steps in range(300):
    step()
    time.sleep(0.01)
    if counts().get("planned", 0) > 100:
        break
"""


def test_a_program_that_repeats_its_steps_gets_a_plan_of_its_own(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        AUTO
        + """
before = counts()
for _ in range(10): step()
after = counts()
print(steps < 299, after["planned"] - before["planned"], sum(after.values()) - sum(before.values()))
print(torch.cuda.max_memory_reserved() >> 20)
torch.cuda.reset_peak_memory_stats()
step()
print(torch.cuda.max_memory_reserved() >> 20, torch.cuda.max_memory_allocated() >> 20)
torch.cuda.synchronize()
del model
torch.cuda.empty_cache()
print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
""",
    )
    first, before, after, nothing = output.splitlines()
    assert first == "True 120 120"
    reserved, allocated = map(int, after.split())
    assert reserved - allocated <= 4 < int(before) - allocated
    assert nothing == "0 0"


def test_a_program_that_leaves_its_plan_continues_without_it_and_returns_to_it(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        AUTO
        + """
def other():
    return [torch.empty(size * 5000, device="cuda") for size in range(1, 200)]
before = counts()
for _ in range(3): other()
left = counts()
for _ in range(20): step()
again = counts()
print(left["planned"] - before["planned"], again["planned"] > left["planned"])
large = torch.empty(70 << 30, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_stats()["num_ooms"])
""",
    )
    assert output.splitlines() == ["0 True", "0"]


def test_a_plan_that_needs_more_memory_than_the_rules_is_dropped(tmp_path: Path) -> None:
    # Blocks that stay keep all pages in use, and the free memory between them is enough for a step.
    blocks = "[torch.empty(3 << 19, dtype=torch.uint8, device='cuda') for _ in range({})]"
    program = AUTO.replace("model = empty(30)", f"model = {blocks.format(40)}[::2]")
    program = program.replace("first, second, third = empty(10), empty(20), empty(10)", f"others = {blocks.format(15)}")
    program = program.replace("    del first, third\n    fourth = empty(20)\n", "")
    output = prints(
        tmp_path,
        program.replace('if counts().get("planned", 0) > 100', "if steps == 99")
        + """
before = torch.cuda.max_memory_reserved()
torch.cuda.reset_peak_memory_stats()
for _ in range(10): step()
print(counts()["planned"], torch.cuda.max_memory_reserved() <= before)
""",
    )
    assert output == "0 True"


def test_steps_that_do_not_repeat_get_no_plan(tmp_path: Path) -> None:
    output = prints(
        tmp_path,
        """
import random, time, torch
import vramscope.torch
pool = vramscope.torch.use_pool(plan="auto", check=True)
chance = random.Random(0)
for _ in range(200):
    live = [torch.empty(chance.randint(1, 1 << 20), device="cuda") for _ in range(chance.randint(1, 40))]
    time.sleep(0.001)
print(pool.plan_use())
pool.record_history()
torch.empty(1000, device="cuda")
pool.dump_snapshot("run.pickle")
""",
    )
    assert output == "{}"
    assert events(tmp_path / "run.pickle")
