"""Describes live tensors for a recording: name, type and shape, and on request the objects that refer to them."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from vramscope._referrers import Walk, dict_of, is_a

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_REFERRERS = 200
"""The maximum number of tensors whose referrers are recorded, the largest first."""

MOST_NAMED = 20_000
"""The maximum number of parameters, gradients and optimizer states that are described."""

# `Purpose` and `TensorNote` of vramscope-trace read these lines (purpose.rs, tensor_note.rs).
_TENSOR, _REFERRER = "vramscope-tensor:", "vramscope-referrer:"

_Base = torch._C.TensorBase


@dataclass
class Described:
    """A block of memory, as the largest tensor in it describes it."""

    device: int
    address: int
    bytes: int
    values: int
    dtype: str
    shape: tuple[int, ...]
    name: str = ""
    chains: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The lines of `user_metadata`."""
        name = f";name={_one_line(self.name)}" if self.name else ""
        lines = [f"{_TENSOR}dtype={self.dtype};shape={tuple(self.shape)}{name}"]
        return "\n".join(lines + [_REFERRER + _one_line(chain) for chain in self.chains])


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


class TensorNotes:
    """The descriptions in one recording. It has texts only, and refers to no tensor.

    Args:
        referrers: Whether to search for the referrers of the largest tensors.
    """

    def __init__(self, *, referrers: bool) -> None:
        self._referrers = referrers
        # Texts by device and address, each with the time of its description in microseconds.
        self._texts: dict[tuple[int, int], list[tuple[int, str]]] = {}

    def take(self) -> list[Described]:
        """Describes the tensors that are live now, and keeps the texts for `write_into`."""
        described = describe(referrers=self._referrers)
        now = time.time_ns() // 1000
        for each in described:
            self._texts.setdefault((each.device, each.address), []).append((now, each.text()))
        return described

    def write_into(self, snapshot: dict[str, Any]) -> None:
        """Adds the texts to the allocations of a snapshot, and to its blocks."""
        for device, events in enumerate(snapshot["device_traces"]):
            wanted = {address: texts for (of, address), texts in self._texts.items() if of == device}
            if wanted:
                _write(wanted, events, [segment for segment in snapshot["segments"] if segment["device"] == device])


def _write(
    wanted: dict[int, list[tuple[int, str]]], events: list[dict[str, Any]], segments: list[dict[str, Any]]
) -> None:
    # The last allocation at each address before each description.
    last: dict[tuple[int, int], dict[str, Any]] = {}
    for event in events:
        if event["action"] == "alloc" and event["addr"] in wanted:
            for index, (taken, _) in enumerate(wanted[event["addr"]]):
                if event["time_us"] <= taken:
                    last[event["addr"], index] = event
    for (address, index), event in last.items():
        _append(event, wanted[address][index][1])
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            texts = wanted.get(address)
            if texts is not None and block["state"] == "active_allocated":
                _append(block, texts[-1][1])
            address += block["size"]


def _append(entry: dict[str, Any], text: str) -> None:
    own = entry.get("user_metadata") or ""
    # The newest description counts.
    own = own.partition(_TENSOR)[0].rstrip("\n")
    entry["user_metadata"] = f"{own}\n{text}" if own else text


def describe(*, referrers: bool) -> list[Described]:
    """Describes the parameters, gradients and optimizer states, and on request all other large tensors."""
    found: dict[tuple[int, int], Described] = {}
    with torch._C.DisableTorchFunctionSubclass():
        for name, tensor in _named():
            each = _described(tensor)
            if each is not None and len(found) < MOST_NAMED:
                each.name = name
                found.setdefault((each.device, each.address), each)
        if referrers:
            _add_referrers(found)
    return list(found.values())


def _add_referrers(found: dict[tuple[int, int], Described]) -> None:
    live: dict[tuple[int, int], Described] = {}
    for tensor, chains in Walk(_is_plain, _gradient).chains():
        each = _described(tensor)
        if each is None:
            continue
        known = live.setdefault((each.device, each.address), each)
        if each.values > known.values:
            known.values, known.dtype, known.shape = each.values, each.dtype, each.shape
        # Views share their memory.
        known.chains = [*known.chains, *chains][:3]
    largest = sorted(live.items(), key=lambda item: -item[1].bytes)[:MOST_REFERRERS]
    for key, each in largest:
        found.setdefault(key, each).chains = each.chains


def _is_plain(kind: type) -> bool:
    """Whether tensors of this type have their own memory. A wrapper has other tensors, which the walk finds in it."""
    if not is_a(kind, torch.Tensor):
        return False
    mro = type.__dict__["__mro__"].__get__(kind)
    own = type.__dict__["__dict__"].__get__
    return all(base is torch.Tensor or base is _Base or "__torch_dispatch__" not in own(base) for base in mro)


def _gradient(tensor: Any) -> list[tuple[str, Any]]:
    gradient = _Base._grad.__get__(tensor) if _Base.is_leaf.__get__(tensor) else None
    return [] if gradient is None else [(".grad", gradient)]


def _described(tensor: Any) -> Described | None:
    try:
        if not _is_plain(type(tensor)) or not _Base.is_cuda.__get__(tensor):
            return None
        storage = _Base.untyped_storage(tensor)
        shape = tuple(_Base.shape.__get__(tensor))
        dtype = str(_Base.dtype.__get__(tensor)).removeprefix("torch.")
        address, values = storage.data_ptr(), _Base.numel(tensor)
        # `data_ptr` is that of the tensor for a storage in the middle of a block.
        if address == 0:
            return None
        return Described(_Base.get_device(tensor), address, storage.nbytes(), values, dtype, shape)
    except Exception:
        # Sparse, fake and functional tensors have no memory of their own.
        return None


def live_optimizers() -> list[Any]:
    """The optimizers of the program."""
    return [each for each in gc.get_objects() if is_a(type(each), torch.optim.Optimizer)]


def _named() -> Iterator[tuple[str, Any]]:
    """The parameters, buffers, gradients and optimizer states of all models and optimizers, with their names."""
    modules: list[Any] = []
    optimizers: list[Any] = []
    kinds: dict[int, list[Any] | None] = {}
    for each in gc.get_objects():
        kind = type(each)
        if id(kind) not in kinds:
            is_module, is_optimizer = is_a(kind, torch.nn.Module), is_a(kind, torch.optim.Optimizer)
            kinds[id(kind)] = modules if is_module else optimizers if is_optimizer else None
        found = kinds[id(kind)]
        if found is not None:
            found.append(each)
    inner = {id(child) for module in modules for _, child in _items(module, "_modules")}
    names: dict[int, str] = {}
    for root in modules:
        if id(root) not in inner:
            yield from _named_in(root, names)
    for optimizer in optimizers:
        for parameter, states in _items(optimizer, "state"):
            if is_a(type(states), dict):
                for state, tensor in list(dict.items(states)):
                    if is_a(type(tensor), torch.Tensor) and type(state) is str:
                        yield f"{state} of {names.get(id(parameter), 'a parameter')}", tensor


def _named_in(root: Any, names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    visited = set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, module = waiting.pop()
        if id(module) in visited:
            continue
        visited.add(id(module))
        for kind in ("_parameters", "_buffers"):
            for name, tensor in _items(module, kind):
                if is_a(type(tensor), torch.Tensor):
                    full = f"{path}{name}"
                    names.setdefault(id(tensor), full)
                    yield full, tensor
                    if kind == "_parameters" and _is_plain(type(tensor)):
                        for _, gradient in _gradient(tensor):
                            yield f"gradient of {full}", gradient
        waiting += [(f"{path}{name}.", child) for name, child in reversed(_items(module, "_modules"))]


def _items(owner: Any, attribute: str) -> list[tuple[Any, Any]]:
    """The items of a dictionary that is an attribute, read without the object's own code. Names are strings."""
    value: Any = (dict_of(owner) or {}).get(attribute)
    if not is_a(type(value), dict):
        return []
    return [(key, each) for key, each in list(dict.items(value)) if type(key) is str or attribute == "state"]
