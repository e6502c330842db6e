"""Hooks on `vramscope.torch.use_pool`, on a phantom GPU; `./test --torch` provides the Python and the command."""

from pathlib import Path

from torch_on_phantom import TRAIN, needs_torch, python

pytestmark = needs_torch

POOL = """
import torch
import vramscope
import vramscope.torch
pool = vramscope.torch.use_pool(check=True)
def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
"""

# A hook that keeps its events.
EVENTS = """
class Events(vramscope.MemoryHook):
    name = "Events"
    def __init__(self):
        self.seen = []
def keep(callback):
    def keeps(self, **words):
        self.seen.append((callback, words))
    return keeps
for when in ("preprocess", "postprocess"):
    for what in ("alloc", "malloc", "free"):
        setattr(Events, f"{what}_{when}", keep(f"{what}_{when}"))
"""


def prints(folder: Path, program: str, **environment: str) -> list[str]:
    """Returns the lines of a program that ends well. The phantom's own report goes to the standard output."""
    beginning = "import sys; sys.stdout = open('output', 'w')\n"
    done = python(folder, beginning + program + "\nprint('end')", **environment)
    lines = (folder / "output").read_text().splitlines()
    assert lines[-1:] == ["end"], done.stderr + done.stdout
    return lines[:-1]


def test_the_report_by_line_is_that_of_cupys_hook(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        POOL
        + """
torch.cuda.init()
def step():
    return empty(2000)
hook = vramscope.LineProfileHook()
with hook:
    first = step()
    second = empty(1000)
third = empty(1000)
hook.print_report()
again = vramscope.torch.LineProfileHook(max_depth=2)
with again:
    fourth = step()
again.print_report()
""",
    )
    program = (tmp_path / "program.py").read_text().splitlines()
    empty, step = (program.index(line) + 1 for line in program if line.startswith("    return"))
    first = program.index("    first = step()") + 1
    file = tmp_path / "program.py"
    assert lines == [
        "_root (3.00KB, 2.00MB)",
        f"  {file}:{first}:<module> (2.00KB, 2.00MB)",
        f"    {file}:{step}:step (2.00KB, 2.00MB)",
        f"      {file}:{empty}:empty (2.00KB, 2.00MB)",
        f"  {file}:{first + 1}:<module> (1.00KB, 0.00B)",
        f"    {file}:{empty}:empty (1.00KB, 0.00B)",
        "_root (2.00KB, 0.00B)",
        f"  {file}:{program.index('    fourth = step()') + 1}:<module> (2.00KB, 0.00B)",
    ]


def test_six_callbacks_have_cupys_arguments(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        POOL
        + EVENTS
        + """
with Events() as hook:
    a = empty(700)
    address = a.data_ptr()
    b = empty(3_000_000)
    del a
c = empty(700)
try:
    with hook, hook:
        pass
except KeyError as error:
    print(error)
names = [callback for callback, _ in hook.seen]
print(*names[:4], *names[4:8], *names[8:])
told = dict(hook.seen[:4])
print(told["malloc_preprocess"], told["alloc_preprocess"])
segment = told["alloc_postprocess"].pop("mem_ptr")
print(told["alloc_postprocess"], segment == address)
block = told["malloc_postprocess"]
print(block["mem_ptr"] == address, block["pmem_id"] > 0, sorted(block))
print(hook.seen[-1][1] == {"device_id": 0, "mem_size": 1024, "mem_ptr": address, "pmem_id": block["pmem_id"]})
""",
    )
    request = "malloc_preprocess alloc_preprocess alloc_postprocess malloc_postprocess"
    assert lines == [
        "'memory hook Events already exists'",
        f"{request} {request} free_preprocess free_postprocess",
        "{'device_id': 0, 'size': 700, 'mem_size': 1024} {'device_id': 0, 'mem_size': 2097152}",
        "{'device_id': 0, 'mem_size': 2097152} True",
        "True True ['device_id', 'mem_ptr', 'mem_size', 'pmem_id', 'size']",
        "True",
    ]


def test_exceptions_of_hooks_follow_cupys_rule(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        POOL
        + """
class Raises(vramscope.MemoryHook):
    name = "Raises"
    def __init__(self, callback):
        def raises(**words):
            raise ValueError(f"no {callback}")
        setattr(self, callback, raises)
kept = empty(5000)
before = torch.cuda.memory_allocated()
sys.unraisablehook = lambda told: print("unraisable", told.exc_type.__name__, told.exc_value)
for callback in ("malloc_preprocess", "alloc_preprocess", "alloc_postprocess", "malloc_postprocess"):
    with Raises(callback):
        try:
            empty(30_000_000)
        except RuntimeError as error:
            print(str(error).splitlines()[0])
    print(torch.cuda.memory_allocated() == before)
    torch.cuda.empty_cache()
for callback in ("free_preprocess", "free_postprocess"):
    a = empty(5000)
    with Raises(callback):
        del a
    print(torch.cuda.memory_allocated() == before)
print(empty(5000).is_cuda)
""",
    )
    assert lines == [
        "vramscope's pool: memory hook Raises refused: ValueError: no malloc_preprocess",
        "True",
        "vramscope's pool: memory hook Raises refused: ValueError: no alloc_preprocess",
        "True",
        "vramscope's pool: memory hook Raises raised: ValueError: no alloc_postprocess",
        "True",
        "vramscope's pool: memory hook Raises raised: ValueError: no malloc_postprocess",
        "True",
        "unraisable ValueError no free_preprocess",
        "True",
        "unraisable ValueError no free_postprocess",
        "True",
        "True",
    ]


def test_a_hook_may_allocate_and_an_exception_of_the_program_stays(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        POOL
        + """
class Allocates(vramscope.MemoryHook):
    name = "Allocates"
    calls = 0
    def malloc_postprocess(self, **words):
        type(self).calls += 1
        self.kept = empty(1000)
        with vramscope.LineProfileHook():
            empty(2000)
    def free_preprocess(self, **words):
        type(self).calls += 100
        empty(1000)
def fails():
    # The tensor is freed while the exception passes.
    return [empty(3000), {}["of the program"]]
with Allocates():
    a = empty(1000)
    del a
    try:
        fails()
    except KeyError as error:
        print(error)
print(Allocates.calls)
""",
    )
    assert lines == ["'of the program'", "202"]


def test_hooks_see_all_threads_and_all_parts_of_a_program(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        POOL
        + EVENTS
        + """
import threading
early = Events()
early.name = "Early"
with early:
    torch.cuda.init()
    part = vramscope.torch.mem_pool()
    with part, Events() as hook:
        empty(1000)
        other = vramscope.torch.mem_pool()
        with other:
            empty(1000)
    with Events() as many:
        def work():
            for size in range(1, 500):
                empty(size)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
count = lambda hook: sum(callback == "malloc_postprocess" for callback, _ in hook.seen)
print(count(hook), count(many), count(early) == count(hook) + count(many))
frees = [words["pmem_id"] for callback, words in many.seen if callback == "free_postprocess"]
print(len(frees), len(set(frees)))
""",
    )
    assert lines == [f"2 {8 * 499} True", f"{8 * 499} {8 * 499}"]


def test_a_backward_pass_on_its_own_thread_counts(tmp_path: Path) -> None:
    lines = prints(
        tmp_path,
        POOL
        + TRAIN.replace("import torch, sys", "")
        + """
step()
def taken():
    stats = torch.cuda.memory_stats()
    return stats["allocated_bytes.all.allocated"], stats["reserved_bytes.all.allocated"]
before = taken()
hook, functions = vramscope.LineProfileHook(), vramscope.CupyMemoryProfileHook()
with hook, functions:
    @functions.profile
    def whole():
        step()
    whole()
used, acquired = (now - then for now, then in zip(taken(), before))
total = [sum(line.used_bytes for line in hook.lines()), sum(line.acquired_bytes for line in hook.lines())]
print(0 < total[0] <= used, total[1] <= acquired)
root = hook._report().splitlines()[0]
from vramscope._native import format_bytes
print(functions.total_used_bytes() == used, functions.total_acquired_bytes() == acquired)
print(functions.summary()["whole"]["used_bytes"] == used, "Sequential" in functions.summary())
print(root.startswith("_root ("), functions.total_used_bytes() > 0)
""",
    )
    assert lines == ["True True", "True True", "True True", "True True"]


def test_pages_of_a_plan_are_allocations_from_the_device(tmp_path: Path) -> None:
    (tmp_path / "run.plan").write_text(
        '{"vramscope_plan":1,"segments":[8388608],"startup":[],"step":[[3145728,0,1048576],[512,0,8388096]]}'
    )
    lines = prints(
        tmp_path,
        """
import torch
import vramscope
import vramscope.torch
pool = vramscope.torch.use_pool(plan="run.plan", check=True)
"""
        + EVENTS
        + """
def step():
    return [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (3 << 20, 512)]
with Events() as hook:
    step()
    step()
    print(*(words["mem_size"] >> 20 for callback, words in hook.seen if callback == "alloc_postprocess"))
    print(sum(callback == "malloc_postprocess" for callback, _ in hook.seen), pool.plan_use()["planned"][0])
""",
    )
    assert lines == ["4 2", "4 4"]
