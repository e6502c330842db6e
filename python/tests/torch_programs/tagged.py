"""Runs a training program, and writes what each of its allocations was for: `tagged.py NAME ours|independent OUT`.

"independent" knows nothing of vramscope: a storage is tagged when it takes on its role, by its address and the clock,
and joined with the last allocation of that address. Modules are told by a dispatch mode, which sees the result of each
operation.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import training
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ORDER = ["parameter", "buffer", "optimizer_state", "gradient", "input", "activation"]


class Tags(TorchDispatchMode):
    """Tags of roles and of modules: (microseconds, address, what)."""

    def __init__(self, models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]) -> None:
        super().__init__()
        self.roles: list[tuple[float, int, str, str | None]] = []
        self.made: list[tuple[float, int, str | None]] = []
        self.paths = {}
        self.owners = {}
        self.stack: list[torch.nn.Module] = []
        for model in models:
            for path, module in model.named_modules():
                self.paths[module] = path
                module.register_forward_pre_hook(lambda module, _: self.stack.append(module))
                module.register_forward_hook(lambda *_: self.stack.pop() and None)
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

    def tag(self, tensor: torch.Tensor, role: str, path: str | None = None) -> None:
        self.roles.append((time.time_ns() / 1000, tensor.untyped_storage().data_ptr(), role, path))

    def tag_gradient(self, parameter: torch.Tensor) -> None:
        self.tag(parameter.grad, "gradient", self.owners[parameter])

    def tag_state(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter, states in optimizer.state.items():
            for state in states.values():
                if isinstance(state, torch.Tensor) and state.is_cuda:
                    self.tag(state, "optimizer_state", self.owners[parameter])

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self.tag(tensor, "activation")
        return tensor.detach()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                now, address = time.time_ns() / 1000, tensor.untyped_storage().data_ptr()
                if torch._C._current_autograd_node() is None:
                    self.made.append((now, address, self.paths[self.stack[-1]] if self.stack else None))
                if not self.stack and not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs))):
                    self.tag(tensor, "input")
        return result


def independent(program: Callable[..., None]) -> tuple[list[Any], list[int]]:
    tags: list[Tags] = []
    contexts: list[Any] = []

    def begin(model: Any, optimizer: Any) -> None:
        torch.cuda.memory._record_memory_history(stacks="python")
        models = model if isinstance(model, list) else [model]
        tags.append(Tags(models, optimizer if isinstance(optimizer, list) else [optimizer]))
        contexts.extend([tags[0], torch.autograd.graph.saved_tensors_hooks(tags[0].pack, lambda tensor: tensor)])
        for context in contexts:
            context.__enter__()

    backward = torch.Tensor.backward

    def unwatched(tensor: torch.Tensor) -> None:
        # PyTorch adds gradients up in another way where operations are watched.
        for mode in tags:
            mode.__exit__(None, None, None)
        backward(tensor)
        for mode in tags:
            mode.__enter__()

    torch.Tensor.backward = unwatched
    program(begin)
    snapshot = torch.cuda.memory._snapshot()
    events = snapshot["device_traces"][0]
    known: dict[int, tuple[str, str | None]] = {}
    made: dict[int, str | None] = {}
    by_address: dict[int, list[int]] = {}
    for number, event in enumerate(events):
        if event["action"] == "alloc":
            by_address.setdefault(event["addr"], []).append(number)

    def last(now: float, address: int) -> int | None:
        before = [number for number in by_address.get(address, []) if events[number]["time_us"] <= now]
        return before[-1] if before else None

    for now, address, path in tags[0].made:
        if (number := last(now, address)) is not None:
            made.setdefault(number, path)
    for now, address, role, path in tags[0].roles:
        number = last(now, address)
        if number is not None and (number not in known or ORDER.index(role) < ORDER.index(known[number][0])):
            known[number] = (role, path)
    rows = []
    for number, event in enumerate(events):
        if event["action"] == "alloc":
            role, path = known.get(number, ("temporary", None))
            rows.append([event["size"], role, path if path is not None else made.get(number, "?")])
    return rows, at_peak(events)


def at_peak(events: list[Any]) -> list[int]:
    """Which allocations, counted from 0, are live where most bytes are, of those that the history saw."""
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


def ours(program: Callable[..., None], path: str) -> tuple[list[Any], list[int]]:
    import pickle

    import vramscope.torch

    records: list[vramscope.torch.Record] = []
    program(lambda model, optimizer: records.append(vramscope.torch.record(path, model=model, optimizer=optimizer)))
    records[0].stop()
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    rows = []
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            text = event.get("user_metadata", "")
            values = dict(part.split("=", 1) for part in text.removeprefix("vramscope:").split(";") if part)
            rows.append([event["size"], values.get("category"), values.get("module")])
    return rows, at_peak(snapshot["device_traces"][0])


if __name__ == "__main__":
    torch.manual_seed(0)
    name, how, out = sys.argv[1:]
    run = training.PROGRAMS[name]
    rows, peak = ours(run, out + ".pickle") if how == "ours" else independent(run)
    with open(out, "w") as file:
        json.dump({"allocations": rows, "peak": peak}, file)
