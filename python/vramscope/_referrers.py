"""Finds the Python objects that refer to given objects, and names the chain of references from a variable to each.

The walk starts at the local variables of all threads and at the global variables of all modules, and follows references
as the garbage collector does. It calls no method of the program's objects: it reads dictionaries, lists and slots
directly. Names are those of variables, attributes and keys; values are never read.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
import time
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MOST_OBJECTS = 1_000_000
"""The maximum number of objects that a walk visits."""

MOST_SECONDS = 2.0
"""The maximum duration of a walk, in CPU time of its thread."""

DEEPEST = 32
"""The maximum number of references in a chain."""

MOST_CHAINS = 3
"""The maximum number of chains for one object."""

_LONGEST_NAME = 60
_LONGEST_CHAIN = 300

# These descriptors of the interpreter read a type or an object without running the program's code.
_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_dict_of_module: Any = types.ModuleType.__dict__["__dict__"]  # type: ignore[index]
_dict_of_type = type.__dict__["__dict__"].__get__

_LOCALS = (lambda: type(sys._getframe().f_locals))()
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CO_OPTIMIZED = 1
_OTHER, _WANTED, _MODULE = range(3)
_REGISTRIES = ("._modules", "._parameters", "._buffers")


def is_a(kind: type, base: type) -> bool:
    """Whether a type has this base. Unlike `issubclass`, it calls no metaclass."""
    return any(each is base for each in _mro_of(kind))


def dict_of(owner: Any) -> dict[Any, Any] | None:
    """Returns the dictionary of an object's attributes, or None if it has none or replaces it."""
    for base in _mro_of(type(owner)):
        own = _dict_of_type(base).get("__dict__")
        if own is not None:
            is_own = type(own) is types.GetSetDescriptorType or type(own) is types.MemberDescriptorType
            found = own.__get__(owner) if is_own else None
            return found if type(found) is dict else None
    return None


def locals_of(frame: types.FrameType) -> list[tuple[str, Any]]:
    """Returns the local variables of a frame, which does not keep them alive."""
    values = frame.f_locals
    if type(values) is not dict and type(values) is not _LOCALS:
        # A namespace of the program, as `exec` takes one.
        return []
    items = list(values.items())
    # Before Python 3.13, a function's frame keeps this copy. A debugger needs it.
    if type(values) is dict and _is_function(frame) and not (sys.gettrace() or frame.f_trace):
        values.clear()
    return items


def _is_function(frame: types.FrameType) -> bool:
    return bool(frame.f_code.co_flags & _CO_OPTIMIZED)


class Walk:
    """One walk through the objects of the program. `chains` returns its results; nothing else refers to an object.

    Args:
        is_wanted: Whether objects of a type are searched for.
        hidden: Returns references of a searched object that the garbage collector does not see, with their names.
        objects: The maximum number of visited objects.
        seconds: The maximum duration, in CPU time.
        depth: The maximum number of references in a chain.
    """

    def __init__(
        self,
        is_wanted: Callable[[type], bool],
        hidden: Callable[[Any], Iterable[tuple[str, Any]]] = lambda _: (),
        *,
        objects: int = MOST_OBJECTS,
        seconds: float = MOST_SECONDS,
        depth: int = DEEPEST,
    ) -> None:
        self._is_wanted = is_wanted
        self._hidden = hidden
        self._most = objects
        self._end = time.thread_time() + seconds
        self._deepest = depth
        self._objects: list[Any] = []
        # For each object: the number of its referrer, or -1; the name of a root or of a hidden reference; its depth.
        self._referrer: list[int] = []
        self._label: list[str] = []
        self._depth: list[int] = []
        self._number: dict[int, int] = {}
        self._found: dict[int, list[int]] = {}
        # For each type: its role, and how to find the length of its objects.
        self._kinds: dict[int, tuple[int, Callable[[Any], int] | None]] = {}
        self._next = 0
        self.is_complete = True
        """Whether no limit ended the walk."""

    def chains(self) -> list[tuple[Any, list[str]]]:
        """Walks, and returns each found object with its chains, the shortest one first."""
        was_enabled = gc.isenabled()
        # A collection would run finalizers of the program.
        gc.disable()
        try:
            own, others = _namespaces()
            barriers = {id(namespace) for _, namespace in own + others}
            mine = (self, *vars(self).values())
            self._number = dict.fromkeys(barriers | {id(each) for each in mine}, -1)
            for roots in (self._frames(), _globals_of(own), _globals_of(others)):
                for name, value in roots:
                    self._visit(value, -1, name, 0)
                self._follow()
            return [(self._objects[at], sorted(self._named(at), key=_is_vague)) for at in self._found]
        finally:
            self._objects.clear()
            if was_enabled:
                gc.enable()

    def _frames(self) -> Iterator[tuple[str, Any]]:
        for frame in list(sys._current_frames().values()):
            here: types.FrameType | None = frame
            while here is not None:
                code = here.f_code
                is_global = not _is_function(here) and here.f_locals is here.f_globals
                if not code.co_filename.startswith(_OWN) and not is_global:
                    where = f"{_short(code.co_name)} ({_short(os.path.basename(code.co_filename))}:{here.f_lineno})"
                    for name, value in locals_of(here):
                        yield f"{where}: {_short(name)}", value
                here = here.f_back

    def _visit(self, value: Any, referrer: int, label: str, depth: int) -> None:
        known = self._number.get(id(value))
        if known is not None:
            others = self._found.get(known)
            if others is None or len(others) >= MOST_CHAINS:
                return
            if referrer < 0:
                others.append(self._root(value, label))
            elif referrer != self._referrer[known] and referrer not in others and not self._is_below(known, referrer):
                others.append(referrer)
            return
        if not gc.is_tracked(value):
            return
        # All types are in use by objects of the walk, so their addresses are theirs.
        kind = type(value)
        known_kind = self._kinds.get(id(kind))
        if known_kind is None:
            role = _MODULE if is_a(kind, types.ModuleType) else _WANTED if self._is_wanted(kind) else _OTHER
            known_kind = self._kinds[id(kind)] = role, _length_of(kind)
        role = known_kind[0]
        # Modules are roots, so no chain leads through one.
        if role == _MODULE:
            return
        at = len(self._objects)
        self._number[id(value)] = at
        self._add(value, referrer, label, depth)
        if role == _WANTED:
            self._found[at] = [-1]

    def _is_below(self, above: int, at: int) -> bool:
        """Whether the chain of an object leads through another one."""
        while at >= 0:
            if at == above:
                return True
            at = self._referrer[at]
        return False

    def _add(self, value: Any, referrer: int, label: str, depth: int) -> None:
        self._objects.append(value)
        self._referrer.append(referrer)
        self._label.append(label)
        self._depth.append(depth)

    def _root(self, value: Any, label: str) -> int:
        """Adds another root of a found object. It is not followed again."""
        self._add(value, -2, label, self._deepest)
        return -len(self._objects) - 1

    def _follow(self) -> None:
        at = self._next
        while at < len(self._objects):
            if at >= self._most or (at % 256 == 0 and time.thread_time() > self._end):
                self.is_complete = False
                break
            value, depth = self._objects[at], self._depth[at] + 1
            if self._referrer[at] == -2:
                pass
            elif depth > self._deepest or self._is_huge(value):
                self.is_complete = False
            else:
                for child in gc.get_referents(value):
                    self._visit(child, at, "", depth)
                if at in self._found:
                    for label, child in self._hidden(value):
                        self._visit(child, at, label, depth)
            at += 1
        self._next = at

    def _is_huge(self, value: Any) -> bool:
        length = self._kinds[id(type(value))][1]
        return length is not None and length(value) > self._most

    def _named(self, at: int) -> list[str]:
        chains = []
        for other in self._found[at]:
            if other == -1:
                chains.append(self._chain([at]))
            elif other < -1:
                chains.append(self._label[-other - 2])
            else:
                chains.append(self._chain([at, other]))
        return chains

    def _chain(self, path: list[int]) -> str:
        """Names a chain; `path` has its end, and possibly the referrer of the end."""
        while self._referrer[path[-1]] >= 0:
            path.append(self._referrer[path[-1]])
        path.reverse()
        labels = [self._label[path[0]]]
        is_attribute = False
        for before, after in itertools.pairwise(path):
            hidden = self._label[after] if self._referrer[after] == before else ""
            if hidden:
                label, is_attribute = hidden, False
            else:
                label, is_attribute = _edge(self._objects[before], self._objects[after], is_attribute)
            labels.append(label)
        text = "".join(_without_registries(labels))
        if len(text) <= _LONGEST_CHAIN:
            return text
        # The variable is at the start, or after the frames of an exception.
        return text[: _LONGEST_CHAIN // 3] + "..." + text[3 - 2 * _LONGEST_CHAIN // 3 :]


def _namespaces() -> tuple[list[tuple[str, dict[str, Any]]], list[tuple[str, dict[str, Any]]]]:
    """Returns the global variables of the program's modules, and of installed ones."""
    own: list[tuple[str, dict[str, Any]]] = []
    others: list[tuple[str, dict[str, Any]]] = []
    seen: set[int] = set()
    # Several names may stand for one module, such as `__mp_main__` for `__main__`.
    modules = [("__main__", sys.modules.get("__main__")), *sys.modules.items()]
    for name, module in modules:
        if (
            module is None
            or type(name) is not str
            or name.partition(".")[0] == "vramscope"
            or not is_a(type(module), types.ModuleType)
        ):
            continue
        namespace = _dict_of_module.__get__(module)
        if type(namespace) is not dict or id(namespace) in seen:
            continue
        seen.add(id(namespace))
        path = namespace.get("__file__")
        installed = ("site-packages", "dist-packages", sys.base_prefix)
        is_own = name == "__main__" or (type(path) is str and not any(part in path for part in installed))
        (own if is_own else others).append((name, namespace))
    return own, others


def _globals_of(namespaces: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    for module, namespace in namespaces:
        for name, value in list(namespace.items()):
            if type(name) is str:
                yield f"{_short(module)}.{_short(name)}", value


def _edge(owner: Any, value: Any, is_attribute: bool) -> tuple[str, bool]:
    """Names a reference, and tells whether `value` is a dictionary of attributes."""
    kind = type(owner)
    if is_a(kind, dict):
        for key, each in list(dict.items(owner)):
            if each is value:
                return (f".{_short(key)}" if is_attribute and type(key) is str else f"[{_key(key)}]"), False
            if key is value:
                return ".keys()", False
    elif is_a(kind, list) or is_a(kind, tuple):
        items = list.__iter__(owner) if is_a(kind, list) else tuple.__iter__(owner)
        for index, each in enumerate(items):
            if each is value:
                return f"[{index}]", False
    elif kind is types.FrameType:
        for name, each in locals_of(owner):
            if each is value:
                return f".f_locals[{_key(name)}]", False
    elif kind is types.GeneratorType or kind is types.CoroutineType:
        attribute = "gi_frame" if kind is types.GeneratorType else "cr_frame"
        frame = getattr(owner, attribute)
        for name, each in locals_of(frame) if frame is not None else ():
            if each is value:
                return f".{attribute}.f_locals[{_key(name)}]", False
    elif kind is types.CellType:
        return ".cell_contents", False
    elif is_a(kind, type):
        if type(value) is dict:
            return "", True
    else:
        names = _members(owner, value)
        if names is not None:
            return names
    return "[...]", False


# Attributes of the interpreter's own types, whose reading runs no code of the program.
_MEMBERS: list[tuple[type, tuple[str, ...]]] = [
    (types.FunctionType, ("__closure__", "__defaults__", "__kwdefaults__")),
    (types.MethodType, ("__self__", "__func__")),
    (types.TracebackType, ("tb_next", "tb_frame")),
    (functools.partial, ("args", "keywords", "func")),
]


def _members(owner: Any, value: Any) -> tuple[str, bool] | None:
    kind = type(owner)
    for base, names in _MEMBERS:
        for name in names if kind is base else ():
            if getattr(owner, name) is value:
                return f".{name}", False
    if is_a(kind, BaseException):
        for name in ("__traceback__", "__context__", "__cause__"):
            if BaseException.__dict__[name].__get__(owner) is value:
                return f".{name}", False
    attributes = dict_of(owner)
    if attributes is value:
        return "", True
    for name, each in list(attributes.items()) if attributes else ():
        if each is value:
            return f".{_short(name)}", False
    for base in _mro_of(kind):
        for name, member in list(_dict_of_type(base).items()):
            if type(member) is types.MemberDescriptorType and _slot(member, owner) is value:
                return f".{_short(name)}", False
    return None


def _slot(member: types.MemberDescriptorType, owner: Any) -> Any:
    try:
        return member.__get__(owner)
    except AttributeError:
        return None


def _length_of(kind: type) -> Callable[[Any], int] | None:
    """The length of a container whose references the interpreter would copy all at once; None for other objects."""
    return next((base.__len__ for base in (list, dict, tuple, set) if is_a(kind, base)), None)


def _is_vague(chain: str) -> bool:
    return ".keys()" in chain or "[...]" in chain


def _without_registries(labels: list[str]) -> list[str]:
    """Shortens `._modules['fc']._parameters['weight']` to `.fc.weight`."""
    short: list[str] = []
    for label in labels:
        if short and short[-1] in _REGISTRIES and label.startswith("['"):
            name = label[2:-2]
            short[-1] = f"[{name}]" if name.isdigit() else f".{name}"
        else:
            short.append(label)
    return short


def _key(key: Any) -> str:
    """Names the key of a dictionary. Only keys of the interpreter's own types show their text."""
    if type(key) is str:
        return f"'{_short(key)}'"
    if type(key) is int or type(key) is bool or key is None:
        return _short(str(key))
    return f"<{_short(_name_of(type(key)))}>"


def _short(text: Any) -> str:
    if type(text) is not str:
        return "?"
    text = text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + "..."
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
