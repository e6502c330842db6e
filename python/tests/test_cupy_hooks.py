"""Compares the hooks of vramscope.cupy with CuPy's own, on CuPy's own pool."""

import contextlib
import gc
import inspect
import io
import os
import random
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
from cupy_pool import Device, cupy, out_of_device_memory, pool_on
from vramscope.cupy import DebugPrintHook, LineProfileHook, MemoryHook


def named(hook):
    """The hook under another name, so that it can be registered beside CuPy's."""
    hook.name = "Ours"
    return hook


def report(hook):
    file = io.StringIO()
    hook.print_report(file)
    return file.getvalue()


def test_callbacks_of_the_base_do_nothing_and_take_anything():
    hook = MemoryHook()
    for when in ("preprocess", "postprocess"):
        for what in ("alloc", "malloc", "free"):
            assert getattr(hook, f"{what}_{when}")(device_id=0, mem_size=512) is None


def test_a_profile_without_cupy_counts_the_given_numbers():
    hook = LineProfileHook()
    for _ in range(2):
        hook.malloc_preprocess(device_id=0, size=1000, mem_size=1024)
    hook.alloc_preprocess(device_id=0, mem_size=1024)
    first = report(hook).splitlines()
    assert first[0] == "_root (2.00KB, 1.00KB)"
    used = [
        line
        for line in first
        if line.endswith(f"{test_a_profile_without_cupy_counts_the_given_numbers.__name__} (2.00KB, 0.00B)")
    ]
    assert len(used) == 1
    assert [(line.lineno, line.used_bytes, line.acquired_bytes) for line in hook.lines()] == [
        (test_a_profile_without_cupy_counts_the_given_numbers.__code__.co_firstlineno + 3, 2048, 0),
        (test_a_profile_without_cupy_counts_the_given_numbers.__code__.co_firstlineno + 4, 0, 1024),
    ]


@pytest.mark.parametrize(("max_depth", "lines"), [(1, 1), (2, 2), (3, 3)])
def test_max_depth_counts_the_root(max_depth, lines):
    hook = LineProfileHook(max_depth=max_depth)
    hook.malloc_preprocess(device_id=0, size=1, mem_size=512)
    assert len(report(hook).splitlines()) == lines


def test_a_subclass_has_arguments_of_its_own():
    class Mine(LineProfileHook):
        name = "Mine"

        def __init__(self, label, *, scale):
            super().__init__(max_depth=2)
            self.label, self.scale = label, scale

        def malloc_preprocess(self, **kwargs):
            super().malloc_preprocess(**kwargs | {"mem_size": self.scale * kwargs["mem_size"]})

    hook = Mine("x", scale=2)
    hook.malloc_preprocess(device_id=0, size=1, mem_size=512)
    assert report(hook).startswith("_root (1.00KB, 0.00B)\n")


def test_variables_of_frames_are_not_kept():
    class Array:
        pass

    freed = []

    def allocate(hook):
        array = Array()
        weakref.finalize(array, freed.append, True)
        hook.malloc_preprocess(device_id=0, size=1, mem_size=512)

    hook = LineProfileHook()
    allocate(hook)
    assert freed == [True]


def test_code_that_is_made_again_and_again_is_one_line():
    hook = LineProfileHook()
    for _ in range(70_000):
        exec(compile("count(1)", "made.py", "exec"), {"count": hook.count})
    lines = report(hook).splitlines()
    assert [line.strip() for line in lines if "made.py" in line] == ["made.py:1:<module> (68.36KB, 0.00B)"]


def test_a_callback_that_is_called_while_frames_are_looked_up():
    """The garbage collector may run, and free or allocate memory, whenever an object is created."""
    hook = LineProfileHook()

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            hook.malloc_preprocess(device_id=0, size=1, mem_size=512)

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(200):
            Cycle()
            exec(compile("\n" * i + "count(512)", f"file{i}.py", "exec"), {"count": hook.count})
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert report(hook).startswith("_root (200.00KB, 0.00B)\n")


DOCUMENTED = {
    "alloc_preprocess": {"device_id", "mem_size"},
    "alloc_postprocess": {"device_id", "mem_size", "mem_ptr"},
    "malloc_preprocess": {"device_id", "size", "mem_size"},
    "malloc_postprocess": {"device_id", "size", "mem_size", "mem_ptr", "pmem_id"},
    "free_preprocess": {"device_id", "mem_size", "mem_ptr", "pmem_id"},
    "free_postprocess": {"device_id", "mem_size", "mem_ptr", "pmem_id"},
}


@pytest.mark.parametrize("kind", [MemoryHook, LineProfileHook, DebugPrintHook])
def test_names_and_arguments_are_those_of_cupys_documentation(kind):
    assert kind.name == kind().name == kind.__name__
    assert inspect.signature(LineProfileHook.__init__).parameters["max_depth"].default == 0
    assert list(inspect.signature(LineProfileHook.print_report).parameters) == ["self", "file"]
    # The documented callbacks can be called directly.
    out = io.StringIO()
    hook = DebugPrintHook(file=out) if kind is DebugPrintHook else kind()
    for callback, words in DOCUMENTED.items():
        getattr(hook, callback)(**dict.fromkeys(words, 1024))
    if kind is LineProfileHook:
        assert report(hook).startswith("_root (1.00KB, 1.00KB)\n")
    if kind is DebugPrintHook:
        assert out.getvalue().splitlines() == [
            '{"hook":"alloc","device_id":1024,"mem_size":1024,"mem_ptr":1024}',
            '{"hook":"malloc","device_id":1024,"size":1024,"mem_size":1024,"mem_ptr":1024,"pmem_id":"0x400"}',
            '{"hook":"free","device_id":1024,"mem_size":1024,"mem_ptr":1024,"pmem_id":"0x400"}',
        ]


# The remaining tests need CuPy.


def test_a_subclass_gets_the_arguments_of_cupys_documentation():
    cupy()
    told = {}

    class Tells(MemoryHook):
        name = "Tells"

    for callback in DOCUMENTED:
        setattr(Tells, callback, lambda _, callback=callback, **words: told.setdefault(callback, []).append(words))
    pool = pool_on(Device())
    with Tells() as hook:
        assert isinstance(hook, Tells)
        memory = pool.malloc(700)
        address, block = memory.ptr, id(memory.mem)
        del memory
    assert {callback: set(words[0]) for callback, words in told.items()} == DOCUMENTED
    assert all(len(words) == 1 for words in told.values())
    assert told["malloc_preprocess"] == [{"device_id": 0, "size": 700, "mem_size": 1024}]
    assert told["alloc_postprocess"] == [{"device_id": 0, "mem_size": 1024, "mem_ptr": address}]
    assert told["free_postprocess"] == [{"device_id": 0, "mem_size": 1024, "mem_ptr": address, "pmem_id": block}]


def theirs():
    from cupy.cuda import memory_hooks

    return memory_hooks


def random_program(seed):
    """Generates functions that call each other and themselves, and allocate and free in many ways."""
    pick = random.Random(seed)
    functions = [f"f{i}" for i in range(pick.randint(2, 8))]
    lines = []
    for function in functions:
        lines.append(f"def {function}(depth):")
        for _ in range(pick.randint(1, 6)):
            size = pick.choice([0, 1, 512, 600, 5000, 1 << 20, 3 << 20])
            lines.append(
                "    "
                + pick.choice(
                    [
                        f"held.append(malloc({size}))",
                        f"malloc({size}); malloc({size} + 1)",
                        f"[malloc({size} + i) for i in range(3)]",
                        f"list(map(lambda n: malloc(n), ({size}, 7)))",
                        f"held.extend(\n        malloc({size})\n        for _ in range(2)\n    )",
                        "del held[::2]",
                        "pool.free_all_blocks()",
                        f"depth and {pick.choice(functions)}(depth - 1)",
                        f"depth and [{pick.choice(functions)}(depth - 1) for _ in range(2)]",
                        f"exec(compile('malloc({size})', 'made{pick.randint(0, 2)}.py', 'exec'))",
                        f"try: malloc({size}); 1 / 0\n    except Exception: malloc({size})\n    finally: malloc(9)",
                        f"type('T', (), {{'__init__': lambda self: held.append(malloc({size}))}})()",
                    ]
                )
            )
    lines += [f"for _ in range(3): {pick.choice(functions)}({pick.randint(1, 5)})" for _ in range(3)]
    return "\n".join([*lines, "malloc(1)"])


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_give_cupys_report(seed):
    cupy()
    pool = pool_on(Device())
    max_depth = random.Random(seed).choice([0, 0, 0, 1, 2, 5, 40, -3])
    cupys, ours = theirs().LineProfileHook(max_depth=max_depth), named(LineProfileHook(max_depth=max_depth))
    program = compile(random_program(seed), f"program{seed}.py", "exec")
    with cupys, ours:
        exec(program, {"malloc": pool.malloc, "pool": pool, "held": []})
    assert report(ours) == report(cupys)
    assert max_depth == 1 or len(report(ours).splitlines()) > 1


def test_a_failed_request_counts_as_cupy_counts_it():
    cupy()
    pool = pool_on(Device(capacity=10_000))
    cupys, ours = theirs().LineProfileHook(), named(LineProfileHook())
    with cupys, ours:
        held = pool.malloc(8000)
        with pytest.raises(MemoryError):
            pool.malloc(8000)
    del held
    assert report(ours) == report(cupys)
    assert report(ours).startswith("_root (16.00KB, 32.00KB)\n")


def test_debug_print_gives_cupys_lines():
    cupy()
    files = io.StringIO(), io.StringIO()
    pool = pool_on(Device(capacity=9000))
    with theirs().DebugPrintHook(file=files[0]), named(DebugPrintHook(file=files[1], flush=False)):
        pool.malloc(24)
        pool.malloc(0)
        held = [pool.malloc(n) for n in (1000, 5000)]
        with pytest.raises(MemoryError):
            pool.malloc(9000)
        del held
    lines = [file.getvalue() for file in files]
    assert lines[0] == lines[1]
    assert [lines[1].count(f'"hook":"{hook}"') for hook in ("alloc", "malloc", "free")] == [6, 5, 3]
    assert '"mem_ptr":0,"pmem_id":"0x0"}' in lines[1]


def test_output_follows_redirection():
    cupy()
    pool = pool_on(Device())
    out = io.StringIO()
    profile = LineProfileHook()
    debug = DebugPrintHook()
    with contextlib.redirect_stdout(out), profile, debug:
        pool.malloc(512)
        profile.print_report()
    assert '{"hook":"free"' in out.getvalue()
    assert "_root (512.00B, 512.00B)" in out.getvalue()


def test_two_hooks_of_a_name_and_the_wrong_thread():
    cupy()
    with LineProfileHook() as hook:
        with pytest.raises(KeyError, match="memory hook LineProfileHook already exists"):
            hook.__enter__()
        with pytest.raises(KeyError, match="memory hook LineProfileHook already exists"):
            theirs().LineProfileHook().__enter__()
        errors = []

        def leave():
            try:
                hook.__exit__()
            except KeyError as error:
                errors.append(error)

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert str(errors[0]) == "'LineProfileHook'"
    from cupy.cuda.memory_hook import get_memory_hooks

    assert not get_memory_hooks()


def test_a_hook_that_raises_refuses_the_request():
    cupy()

    class Refuses(MemoryHook):
        name = "Refuses"

        def malloc_preprocess(self, **_):
            raise ValueError("no")

    pool = pool_on(Device())
    after = LineProfileHook()
    with Refuses(), after, pytest.raises(ValueError, match="no"):
        pool.malloc(512)
    assert pool.used_bytes() == 0
    assert report(after) == "_root (0.00B, 0.00B)\n"


CALLBACKS = [f"{what}_{when}process" for what in ("alloc", "malloc", "free") for when in ("pre", "post")]


def heard(base, raising, capacity):
    """The callbacks of three nested hooks with this base, and the program's results, when one callback raises."""
    events = []

    def hook(label):
        def tells(callback):
            def call(_, **kwargs):
                events.append(
                    (label, callback, *((name, kwargs[name]) for name in ("size", "mem_size") if name in kwargs))
                )
                if label == "second" and callback == raising:
                    raise ValueError(raising)

            return call

        return type(label, (base,), {"name": label, **{callback: tells(callback) for callback in CALLBACKS}})()

    pool = pool_on(Device(capacity))
    with hook("first"), hook("second"), hook("third"):
        for size in (1000, 9000, 1000):
            try:
                memory = pool.malloc(size)
                events.append(("given", size))
                memory.mem.free()
            except Exception as error:
                events.append((type(error).__name__, str(error)))
    # The exception's reference cycle may hold a block.
    gc.collect()
    return events, pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()


@pytest.mark.parametrize("raising", [None, *CALLBACKS])
@pytest.mark.parametrize("capacity", [1 << 20, 5000])
def test_exceptions_in_callbacks_do_what_they_do_in_cupys(raising, capacity):
    base = cupy().cuda.MemoryHook
    found = heard(MemoryHook, raising, capacity)
    assert found == heard(base, raising, capacity)
    assert raising is None or any(event[:2] == ("second", raising) for event in found[0])


def test_threads_have_hooks_of_their_own_and_may_share_one():
    cupy()
    pools = [pool_on(Device()) for _ in range(4)]
    shared, own, errors = named(LineProfileHook()), [LineProfileHook() for _ in pools], []
    cupys = [theirs().LineProfileHook() for _ in pools]
    for hook in cupys:
        hook.name = "Theirs"
    together = threading.Barrier(len(pools))

    def work(i):
        try:
            with shared, own[i], cupys[i]:
                together.wait(60)
                for n in range(300):
                    held = pools[i].malloc(512 * (i + 1))
                    pools[i].malloc(512 * n)
                    del held
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[i]) for i in range(len(pools))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [report(hook) for hook in own] == [report(hook) for hook in cupys]
    # The shared hook has the sum of all separate ones.
    for what in ("used_bytes", "acquired_bytes"):
        assert sum(getattr(line, what) for line in shared.lines()) == sum(
            getattr(line, what) for hook in own for line in hook.lines()
        )
    assert sum(line.used_bytes for line in shared.lines()) == 512 * (300 * 10 + 4 * sum(range(300)))


def test_an_exception_in_the_block_passes_and_takes_the_hook_away():
    cupy()
    from cupy.cuda.memory_hook import get_memory_hooks

    with pytest.raises(KeyboardInterrupt), LineProfileHook():
        raise KeyboardInterrupt
    assert not get_memory_hooks()


def python(program, *options):
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_an_exit_in_the_block_and_a_fork_print_nothing():
    cupy()
    done = python(
        """
        import os, sys
        from cupy_pool import Device, pool_on
        from vramscope.cupy import LineProfileHook, DebugPrintHook
        pool = pool_on(Device())
        hook = LineProfileHook()
        hook.__enter__()
        held = pool.malloc(1000)
        pid = os.fork()
        again = pool.malloc(2000)
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
        hook.print_report()
        """,
        "-X",
        "dev",
        "-W",
        "error",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("_root (3.00KB, 3.00KB)\n") == 2


def test_cupy_is_not_imported_before_it_is_asked_for():
    done = python("import sys, vramscope.cupy; vramscope.cupy.LineProfileHook(); print('cupy' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_device_errors_of_the_tests_are_what_cupy_retries():
    cupy()
    device = Device(capacity=1000)
    with pytest.raises(MemoryError, match=r"Out of memory allocating 2,048 bytes \(allocated so far: 0 bytes\)"):
        pool_on(device).malloc(2000)
    assert device.refused == 3
    assert out_of_device_memory().status == 2
