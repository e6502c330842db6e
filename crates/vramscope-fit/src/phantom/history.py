"""Shares PyTorch's history between vramscope, which records the whole run, and the program.

PyTorch has one history per process. Here it is on from the start and stays on. It keeps all events, or the newest ones up to the limit
of `--max-entries`. If the program turns it on too and takes a snapshot, it gets only the part that it would have recorded, of the events
that are kept.
"""

import functools
import inspect
import re
import sys

# PyTorch releases that lose an exception if memory is freed while it unwinds.
LOSES_EXCEPTIONS = [(2, 11)]

TRACES = ("device_traces", "host_traces")


def in_place_of(function, other):
    """Returns `other` as a function with the name, docstring and signature of `function`."""

    @functools.wraps(function)
    def stand_in(*arguments, **options):
        return other(*arguments, **options)

    return stand_in


def stack_context(torch):
    """Returns the `context` to record with: "all", or "alloc", which captures no stacks of frees.

    In a backward pass of some releases, on a Python before 3.13, capturing the stack of a free clears a pending exception. The
    program then ends with a SystemError. `stack_context` in python/vramscope/torch/_history.py has the same rule, and the details.
    """
    release = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    return "alloc" if release in LOSES_EXCEPTIONS and sys.version_info < (3, 13) else "all"


class SharedHistory:
    """PyTorch's history, shared by this run and the program. It keeps the newest `max_entries` events of each device."""

    def __init__(self, torch, max_entries):
        self.torch = torch
        # PyTorch mixes up the order of the events if the limit grows after events were dropped, so it never changes.
        self.max_entries = max_entries
        self.memory = torch.cuda.memory
        # PyTorch's functions.
        self.record = self.memory._record_memory_history
        self.snapshot = self.memory._snapshot
        self.programs = None
        self.context = stack_context(torch)
        self.stacks = "python"
        self.is_on = False
        self.memory._record_memory_history = in_place_of(self.record, self.record_for_program)
        self.memory._snapshot = in_place_of(self.snapshot, self.snapshot_for_program)

    def start(self):
        """Starts the history of the whole run, after PyTorch has initialized its GPUs."""
        self.is_on = True
        # A snapshot resolves frames of C++ one by one, which takes minutes: only programs that request them get them.
        self.record(max_entries=self.max_entries, context=self.context, stacks=self.stacks)

    def may_have_dropped(self, snapshot):
        """Whether a device reached the limit, so that PyTorch may have dropped its older events."""
        return any(len(trace) >= self.max_entries for name in TRACES for trace in snapshot.get(name, []))

    def record_for_program(self, enabled="all", *arguments, **options):
        asked = self.asked(enabled, arguments, options)
        if asked is None:
            # PyTorch raises the error.
            return self.record(enabled, *arguments, **options)
        if not enabled:
            self.programs = None
            return
        if self.programs is None or asked.get("clear_history"):
            self.programs = ProgramsPart(self.snapshot() if self.is_on else {}, self.max_entries)
        self.programs.limit(1 if enabled == "state" else asked["max_entries"], asked.get("skip_actions"))
        self.programs.context = asked["context"]
        self.stacks = asked["stacks"]
        if self.is_on:
            more = {name: asked[name] for name in ("compile_context", "global_record_annotations") if name in asked}
            self.record(max_entries=self.max_entries, context=self.context, stacks=self.stacks, **more)

    def asked(self, enabled, arguments, options):
        """Returns the program's options under their current names; None if PyTorch would refuse them."""
        legacy = isinstance(enabled, bool)
        known = self.memory._record_memory_history_legacy if legacy else self.memory._record_memory_history_impl
        try:
            asked = inspect.signature(known).bind(enabled, *arguments, **options)
        except TypeError:
            return None
        asked.apply_defaults()
        asked = asked.arguments
        if legacy:
            asked["max_entries"] = asked["trace_alloc_max_entries"]
            asked["stacks"] = "all" if asked["record_context_cpp"] else "python"
            state = "state" if asked["record_context"] else None
            asked["context"] = "all" if asked["trace_alloc_record_context"] else state
        is_known = (legacy or enabled in (None, "state", "all")) and asked["stacks"] in ("python", "all")
        return asked if is_known else None

    def snapshot_for_program(self, *arguments, **options):
        snapshot = self.snapshot(*arguments, **options)
        if self.programs is None:
            for traces in TRACES:
                if traces in snapshot:
                    snapshot[traces] = [[] for _ in snapshot[traces]]
        else:
            self.programs.cut(snapshot)
        return snapshot


class ProgramsPart:
    """The part of a history that the program recorded: it starts after the events of `snapshot`.

    The history keeps the newest `kept` events.
    """

    def __init__(self, snapshot, kept):
        self.kept = kept
        # The option `context`: of which allocations and events the program records stacks.
        self.context = "all"
        # Each begin is the number of earlier entries, and the time of the last one. Taking a snapshot is also an event, after the
        # events that it contains.
        self.begins = {name: [(len(trace) + 1, last_time(trace)) for trace in snapshot.get(name, [])] for name in TRACES}
        annotations = snapshot.get("external_annotations", [])
        self.annotations = (len(annotations), last_time(annotations))

    def limit(self, max_entries, skip_actions):
        self.max_entries = max_entries
        self.skip_actions = skip_actions or []

    def cut(self, snapshot):
        for name in TRACES:
            if name in snapshot:
                begins = self.begins[name] + [(0, -1)] * len(snapshot[name])
                snapshot[name] = [self.part(trace, begin) for trace, begin in zip(snapshot[name], begins)]
        if self.context is None:
            for block in (block for segment in snapshot.get("segments", []) for block in segment["blocks"]):
                block["frames"] = []
        if "external_annotations" in snapshot:
            snapshot["external_annotations"] = self.after(snapshot["external_annotations"], self.annotations)

    def part(self, trace, begin):
        wanted = [event for event in self.after(trace, begin) if event["action"] not in self.skip_actions]
        wanted = wanted[-self.max_entries :]
        if self.context in (None, "state"):
            wanted = [{name: value for name, value in event.items() if name != "frames"} for event in wanted]
        return wanted

    def after(self, entries, begin):
        """Returns the entries after `begin`."""
        earlier, time = begin
        if len(entries) < self.kept:
            return entries[earlier:]
        # Older entries may have been dropped, so their number does not give the position.
        later = [entry for entry in entries if entry["time_us"] > time]
        is_snapshot = earlier > 0 and later and later[0].get("action") == "snapshot"
        return later[1:] if is_snapshot else later


def last_time(entries):
    """Returns the time of the last entry, in microseconds since the Unix epoch; -1 without entries."""
    return entries[-1]["time_us"] if entries else -1
