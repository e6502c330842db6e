"""Programs that record their own history: they see no effect of another recorder."""

import os
import pickle
import tempfile

import torch

from cases import case

MIB = 1 << 20
memory = torch.cuda.memory


def recorded(snapshot):
    return [(event["action"], event["size"]) for event in snapshot["device_traces"][0]]


def allocate(count, size=MIB):
    for _ in range(count):
        torch.empty(size, dtype=torch.uint8, device="cuda")


def of(count, size=MIB):
    """The history of `count` tensors of this size, allocated and freed one after the other."""
    return [(action, size) for action in ("alloc", "free_requested", "free_completed")] * count


@case
def a_program_that_does_not_record_has_no_history():
    allocate(3)
    assert recorded(memory._snapshot()) == []


@case
def a_history_begins_and_ends_where_the_program_says():
    allocate(3)
    memory._record_memory_history(max_entries=100_000)
    allocate(2)
    with tempfile.TemporaryDirectory() as folder:
        memory._dump_snapshot(os.path.join(folder, "own.pickle"))
        with open(os.path.join(folder, "own.pickle"), "rb") as file:
            snapshot = pickle.load(file)
    assert recorded(snapshot) == of(2), recorded(snapshot)
    # A program that requests C++ frames gets them.
    frames = snapshot["device_traces"][0][0]["frames"]
    assert any(frame["filename"] == "??" or "::" in frame["name"] for frame in frames), frames[:5]
    assert any(frame["filename"] == __file__ for frame in frames)
    memory._record_memory_history(enabled=None)
    allocate(3)
    assert recorded(memory._snapshot()) == []


@case
def a_history_is_as_long_as_the_program_says():
    memory._record_memory_history(max_entries=4, stacks="python")
    allocate(5)
    assert recorded(memory._snapshot()) == of(2)[-4:]
    memory._record_memory_history(enabled=None)


@case
def what_is_asked_wrongly_is_refused_in_pytorchs_words():
    for wrong, error in ((("some",), RuntimeError), (("all", "all", "some"), RuntimeError)):
        try:
            memory._record_memory_history(*wrong)
        except error as refused:
            assert "expected" in str(refused)
        else:
            raise AssertionError(f"{wrong} was taken")
    try:
        memory._record_memory_history(entries=7)
    except TypeError:
        pass
    else:
        raise AssertionError("an argument that there is not was taken")


@case
def stacks_are_those_that_the_program_asks_for():
    for context, of_events, of_blocks in [(None, False, False), ("state", False, True), ("all", True, True)]:
        memory._record_memory_history(context=context, stacks="python")
        kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        snapshot = memory._snapshot()
        memory._record_memory_history(enabled=None)
        blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        assert ("frames" in snapshot["device_traces"][0][-1]) == of_events, context
        assert any(block.get("frames") for block in blocks) == of_blocks, context
        del kept
