"""Runs a training program and writes the category of each allocation: `tagged.py NAME ours|log|independent OUT`.

"independent" uses neither vramscope nor a clock. A hook reads PyTorch's allocation counter to separate earlier
allocations from later ones: when a storage takes on a role, the last earlier allocation at its address gets the tag.
Modules are identified by hooks before and after each module's forward, and before each graph node in backward. A node
belongs to the module whose forward created it, found by the node's sequence number.
"""

import bisect
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import features
import torch
import training
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

ORDER = ["parameter", "buffer", "optimizer_state", "gradient", "input", "activation"]


def allocations() -> int:
    """Returns the number of allocations that PyTorch has made on device 0."""
    return torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"]


class Thread(threading.local):
    """The position of one thread: the open modules, and the module path by the first sequence number of its nodes."""

    def __init__(self) -> None:
        self.open: list[str | None] = [None]
        self.numbers: list[int] = [-1]
        self.paths: list[str | None] = [None]


class Inputs(TorchFunctionMode):
    """Observes tensors that the program creates outside its modules."""

    def __init__(self, tags: "Tags") -> None:
        super().__init__()
        self.tags = tags

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        is_made = isinstance(result, torch.Tensor) and result.is_cuda and len(self.tags.thread.open) == 1
        if is_made and not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs))):
            self.tags.tag(result, "input")
        return result


class Tags:
    """The hooks' observations: roles of addresses, and the module from each allocation number on."""

    def __init__(self, models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]) -> None:
        self.first = allocations()
        self.roles: list[tuple[int, int, str, str | None]] = []
        self.places: list[tuple[int, str | None]] = [(0, None)]
        self.thread = Thread()
        self.owners: dict[torch.Tensor, str] = {}
        for model in models:
            for path, module in model.named_modules():
                module.register_forward_pre_hook(self.enter(path))
                module.register_forward_hook(self.leave, always_call=True)
                for parameter in module.parameters(recurse=False):
                    if parameter not in self.owners:
                        self.owners[parameter] = path
                        self.tag(parameter, "parameter", path)
                        if parameter.requires_grad:
                            parameter.register_post_accumulate_grad_hook(self.tag_gradient)
                for buffer in module.buffers(recurse=False):
                    self.tag(buffer, "buffer", path)
        for optimizer in optimizers:
            self.tag_state(optimizer)
            for parameter in self.owners:
                if parameter.grad is not None:
                    self.tag_gradient(parameter)
            optimizer.register_step_post_hook(lambda optimizer, *_: self.tag_state(optimizer))
        run = torch.autograd.graph._engine_run_backward

        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch([root.grad_fn for root in roots if root.grad_fn is not None])
            back_to = self.places[-1][1]
            try:
                return run(roots, *args, **kwargs)
            finally:
                self.place(back_to)

        torch.autograd._engine_run_backward = run_backward
        torch.autograd.graph._engine_run_backward = run_backward

    def place(self, path: str | None) -> None:
        self.places.append((allocations() - self.first, path))

    def enter(self, path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self.thread.open.append(path)
            self.thread.numbers.append(torch._C._autograd._get_sequence_nr())
            self.thread.paths.append(path)
            self.place(path)

        return hook

    def leave(self, *_: Any) -> None:
        self.thread.open.pop()
        path = self.thread.open[-1]
        self.thread.numbers.append(torch._C._autograd._get_sequence_nr())
        self.thread.paths.append(path)
        self.place(path)

    def watch(self, nodes: list[Any]) -> None:
        """Makes each node of the graph report that it runs."""
        seen = set()
        thread = self.thread
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            nodes.extend(following for following, _ in node.next_functions if following is not None)
            if hasattr(node, "variable"):
                path = self.owners.get(node.variable)
            else:
                path = thread.paths[bisect.bisect_right(thread.numbers, node._sequence_nr()) - 1]
            node.register_prehook(self.run_node(path))

    def run_node(self, path: str | None) -> Callable[[Any], None]:
        def hook(_: Any) -> None:
            # A forward during backward ends in the node that called it.
            self.thread.open[0] = path
            self.place(path)

        return hook

    def tag(self, tensor: torch.Tensor, role: str, path: str | None = None) -> None:
        self.roles.append((allocations() - self.first, tensor.untyped_storage().data_ptr(), role, path))

    def tag_gradient(self, parameter: torch.Tensor) -> None:
        # An earlier optimizer step may have dropped the gradient.
        if parameter.grad is not None:
            self.tag(parameter.grad, "gradient", self.owners[parameter])

    def tag_state(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter, states in optimizer.state.items():
            for state in states.values():
                if isinstance(state, torch.Tensor) and state.is_cuda:
                    self.tag(state, "optimizer_state", self.owners[parameter])

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self.tag(tensor, "activation")
        return tensor.detach()


def independent(program: Callable[..., None]) -> tuple[list[Any], list[int], int]:
    made: list[Tags] = []
    contexts: list[Any] = []

    def begin(model: Any, optimizer: Any) -> None:
        torch.cuda.memory._record_memory_history(stacks="python")
        models = model if isinstance(model, list) else [model]
        tags = Tags(models, optimizer if isinstance(optimizer, list) else [optimizer])
        made.append(tags)
        contexts.extend([Inputs(tags), torch.autograd.graph.saved_tensors_hooks(tags.pack, lambda tensor: tensor)])
        for context in contexts:
            context.__enter__()

    program(begin)
    for context in reversed(contexts):
        context.__exit__(None, None, None)
    (tags,) = made
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    allocated = [event for event in events if event["action"] == "alloc"]
    assert len(allocated) == allocations() - tags.first
    by_address: dict[int, list[int]] = {}
    for number, event in enumerate(allocated):
        by_address.setdefault(event["addr"], []).append(number)
    known: dict[int, tuple[str, str | None]] = {}
    for count, address, role, path in tags.roles:
        numbers = by_address.get(address, [])
        before = bisect.bisect_left(numbers, count)
        if before and (
            numbers[before - 1] not in known or ORDER.index(role) < ORDER.index(known[numbers[before - 1]][0])
        ):
            known[numbers[before - 1]] = (role, path)
    rows = []
    places = iter(tags.places)
    here = next(places)
    following = next(places, None)
    for number, event in enumerate(allocated):
        while following is not None and following[0] <= number:
            here, following = following, next(places, None)
        role, path = known.get(number, ("temporary", None))
        rows.append([event["size"], role, path if path is not None else here[1]])
    return rows, at_peak(events), 0


def at_peak(events: list[Any]) -> list[int]:
    """Returns the allocations, counted from 0, that are live at the peak, among those in the history."""
    live: dict[int, tuple[int, int]] = {}
    size = best = count = 0
    peak: list[int] = []
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = (count, event["size"])
            count += 1
            size += event["size"]
            if size > best:
                best, peak = size, [number for number, _ in live.values()]
        elif event["action"] == "free_requested" and event["addr"] in live:
            size -= live.pop(event["addr"])[1]
    return peak


def ours(program: Callable[..., None], path: str) -> tuple[list[Any], list[int], int]:
    """Records a snapshot, or a log, which knows the sizes of blocks."""
    import os
    import pickle
    import subprocess

    import vramscope.torch

    records: list[vramscope.torch.Record] = []
    program(lambda model, optimizer: records.append(vramscope.torch.record(path, model=model, optimizer=optimizer)))
    is_log = path.endswith(".vramscope")
    resting = 0 if is_log else records[0]._purposes.resting_steps()
    records[0].stop()
    if is_log:
        log, path = path, f"{path}.pickle"
        subprocess.run([os.environ["VRAMSCOPE_COMMAND"], "export", log, "--output", path], check=True)
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    rows = []
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            # A line about the tensor may follow.
            text = event.get("user_metadata", "").partition("\n")[0]
            values = dict(part.split("=", 1) for part in text.removeprefix("vramscope:").split(";") if part)
            rows.append([event["size"], values.get("category"), values.get("module")])
    return rows, at_peak(snapshot["device_traces"][0]), resting


if __name__ == "__main__":
    torch.manual_seed(0)
    name, how, out = sys.argv[1:]
    run = (training.PROGRAMS | features.PROGRAMS)[name]
    if how == "independent":
        rows, peak, resting = independent(run)
    else:
        rows, peak, resting = ours(run, out + (".vramscope" if how == "log" else ".pickle"))
    with open(out, "w") as file:
        json.dump({"allocations": rows, "peak": peak, "resting": resting}, file)
