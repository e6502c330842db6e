"""Records PyTorch's memory history in an unchanged program.

Python imports this file at startup if its folder is on the path. It waits until the program imports torch and torch initializes its
GPUs, or until the first request for device memory; then it turns on the history. When the program ends, first runs out of memory or receives SIGTERM, it writes a snapshot and some
facts into the folder in VRAMSCOPE_RECORDINGS, as PID.pickle and PID.json. The history keeps all events, or the number of newest
events in VRAMSCOPE_RECORDINGS_ENTRIES. It is shared with programs that also use it (vramscope_history.py, in the same folder). Support
for programs of several processes is in vramscope_ranks.py.
"""

import os
import sys

from vramscope_imports import AfterImport, import_next_sitecustomize


class Recorder:
    """Records the history of one process."""

    def __init__(self, torch, folder, changes, follower):
        import vramscope_history

        self.torch = torch
        # The changes of `vramscope fit`; None without it.
        self.changes = changes
        # The follower of values; None without it.
        self.follower = follower
        self.folder = folder
        # The process that initializes its GPUs, which may be a fork of the one that imported torch.
        self.pid = None
        self.path = None
        self.is_written = False
        self.ran_out = False
        entries = os.environ.get("VRAMSCOPE_RECORDINGS_ENTRIES")
        self.max_entries = int(entries) if entries else None
        self.history = vramscope_history.SharedHistory(torch, self.max_entries or sys.maxsize)

    def start(self):
        import atexit
        import functools
        import signal
        import threading

        # cudaMallocAsync and custom allocators have no history.
        if self.torch.cuda.get_allocator_backend() != "native":
            print(
                "vramscope phantom: nothing is recorded, because only PyTorch's native allocator has a history", file=sys.stderr
            )
            return
        # PyTorch has no allocators before it initializes its GPUs, so that a second start may be the first one with an effect.
        self.history.start()
        self.torch._C._cuda_attach_out_of_memory_observer(self.out_of_memory)
        if self.pid == os.getpid():
            return
        self.pid = os.getpid()
        self.path = os.path.join(self.folder, str(self.pid))
        atexit.register(self.write)
        # Forked processes of multiprocessing end without atexit.
        end = os._exit

        @functools.wraps(end)
        def write_and_end(status):
            try:
                self.write()
            finally:
                end(status)

        os._exit = write_and_end
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self.asked_to_end)

    def out_of_memory(self, device, requested, total, free):
        # A program may catch this thousands of times; the snapshot at its end contains all of them.
        if not self.ran_out:
            self.ran_out = True
            self.write(is_complete=False)

    def asked_to_end(self, number, frame):
        import signal

        signal.signal(number, signal.SIG_DFL)
        # Forked children inherit this handler, but have recorded nothing.
        self.write()
        os.kill(os.getpid(), number)

    def write(self, is_complete=True):
        if os.getpid() != self.pid or self.is_written:
            return
        self.is_written = is_complete
        import json
        import pickle

        import vramscope_choices

        cuda = self.torch.cuda
        snapshot = self.snapshot()
        facts = {
            "torch": self.torch.__version__,
            "rank": number_in_environment("RANK"),
            "program": sys.argv[:1],
            "architectures": cuda.get_arch_list(),
            "is_complete": is_complete,
            "ran_out": self.ran_out,
            "may_have_dropped": self.max_entries is not None and self.history.may_have_dropped(snapshot),
            "changes": None if self.changes is None else self.changes.facts(),
            "values": None if self.follower is None else self.follower.facts(),
            "choices": vramscope_choices.facts(),
            "devices": [self.facts_of(device) for device in range(cuda.device_count())],
        }
        # A recording without facts is ignored, so the facts are written first.
        self.put(".json", lambda out: out.write(json.dumps(facts).encode()))
        self.put(".pickle", lambda out: pickle.dump(snapshot, out))

    def put(self, suffix, write):
        """Writes a file, which gets its name when it is complete."""
        part = f"{self.path}-{os.urandom(8).hex()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o600), "wb") as out:
            write(out)
        os.replace(part, self.path + suffix)

    def snapshot(self):
        """Returns the recording: PyTorch's snapshot, the total memory of each device, and the limit of the history."""
        cuda = self.torch.cuda
        snapshot = self.history.snapshot()
        totals = [total_memory_of(cuda.get_device_properties(device)) for device in range(cuda.device_count())]
        if None not in totals:
            snapshot["device_total_bytes"] = totals
        if self.max_entries is not None:
            # Reports can then say that older events were dropped.
            snapshot["trace_alloc_max_entries"] = [self.max_entries] * cuda.device_count()
        return snapshot

    def facts_of(self, device):
        """Returns PyTorch's counters of a device."""
        stats = self.torch.cuda.memory_stats(device)
        # The last byte of a phantom's UUID is its number in the machine; CUDA_VISIBLE_DEVICES may renumber devices in programs.
        uuid = getattr(self.torch.cuda.get_device_properties(device), "uuid", None)
        return {
            "gpu": device if uuid is None else int(str(uuid)[-2:], 16),
            "peak_allocated_bytes": stats.get("allocated_bytes.all.peak", 0),
            "peak_reserved_bytes": stats.get("reserved_bytes.all.peak", 0),
            "num_alloc_retries": stats.get("num_alloc_retries", 0),
            "num_ooms": stats.get("num_ooms", 0),
        }


def number_in_environment(name):
    """Returns a number from the environment. A rank has at most nine digits: a longer number belongs to another program."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() and len(value) <= 9 else None


def total_memory_of(properties):
    """Returns a device's memory in bytes; None if its properties lack it."""
    return getattr(properties, "total_memory", None)


def record_when_torch_starts(torch, changes, follower):
    folder = os.environ.get("VRAMSCOPE_RECORDINGS")
    if folder and hasattr(torch, "cuda"):
        start_before_memory(torch, Recorder(torch, folder, changes, follower).start)


def start_before_memory(torch, start):
    """Calls a function when torch initializes its GPUs, or before the first request for device memory.

    C++ initializes GPUs without `torch.cuda`, for example in `torch.jit.load`.
    """
    import ctypes

    before_memory = getattr(ctypes.CDLL(None), "vramscope_phantom_before_memory", None)
    call = ctypes.CFUNCTYPE(None)(start)

    def at_initialization():
        if before_memory is not None:
            # The phantom GPU keeps the address of `call` until here.
            before_memory(ctypes.CFUNCTYPE(None)())
        start()

    if before_memory is not None:
        at_initialization.kept = call
        before_memory(call)
    # Calls the function at once if the GPUs are already initialized.
    torch.cuda._lazy_call(at_initialization)


def count_questions_for_memory(torch):
    """Counts reads of a device's `total_memory`, which PyTorch caches when it initializes, so that the driver sees no later query."""
    import ctypes

    properties = getattr(torch._C, "_CudaDeviceProperties", None)
    plain = getattr(properties, "total_memory", None)
    asked = getattr(ctypes.CDLL(None), "vramscope_phantom_memory_asked", None)
    if asked is None or not isinstance(plain, property):
        return

    def total_memory(self):
        asked()
        return plain.fget(self)

    # The recorder's reads do not count.
    global total_memory_of
    total_memory_of = plain.fget
    properties.total_memory = property(total_memory, doc=plain.__doc__)


def after_torch(torch):
    import vramscope_changes
    import vramscope_choices
    import vramscope_follow
    import vramscope_ranks
    import vramscope_values

    record_when_torch_starts(torch, vramscope_changes.prepare(torch), vramscope_follow.start(torch))
    count_questions_for_memory(torch)
    vramscope_choices.without_caches()
    vramscope_ranks.prepare(torch)
    vramscope_values.without_checks(torch)
    vramscope_values.finite_gradients(torch)


def choices(name):
    """Returns a function that prepares a module for choices by measured time."""

    def after(module):
        import vramscope_choices

        getattr(vramscope_choices, name)(module)

    return after


def after_transformers(utils):
    import vramscope_values

    vramscope_values.longest_generation(utils)


sys.meta_path.insert(0, AfterImport("torch", after_torch))
sys.meta_path.insert(0, AfterImport("transformers.generation.utils", after_transformers))
sys.meta_path.insert(0, AfterImport("torch._inductor.fx_passes.pad_mm", choices("padding")))
sys.meta_path.insert(0, AfterImport("torch._inductor.select_algorithm", choices("algorithms")))
sys.meta_path.insert(0, AfterImport("triton.runtime.autotuner", choices("configurations")))
import_next_sitecustomize(__file__)
