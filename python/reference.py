"""Builds the API reference from docstrings: python python/reference.py FOLDER

Exits with code 1 if a public name has no docstring. PyTorch and other tools need not be installed; stand-ins replace
them. It needs pdoc and the package's native module.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pdoc
from pdoc.doc import Class, Doc, Function, Module

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableSequence

#: Large tools of which only the names are needed.
TOOLS = ("IPython", "cupy", "lightning", "torch", "transformers")


class Name(type):
    """A class that has every attribute and works as a no-op decorator."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {"__module__": cls.__module__})

    def __call__(cls, *given: Any, **named: Any) -> Any:
        """Returns its first argument, as a decorator would; without one, a new object."""
        return given[0] if given else super().__call__(**named)


class StandIn(types.ModuleType):
    """A module that has every name."""

    __path__: MutableSequence[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {"__module__": self.__name__})


class StandIns(MetaPathFinder, Loader):
    """Finds a stand-in for each tool and its submodules."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Returns a spec if the module belongs to a tool."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in TOOLS else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Creates an empty stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: a stand-in has no code."""


def modules() -> list[str]:
    """Returns the names of the package's public modules."""
    root = Path(__file__).parent
    paths = (path.relative_to(root).with_suffix("") for path in sorted((root / "vramscope").rglob("*.py")))
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    return sorted(name for name in names if not any(part.startswith("_") for part in name.split(".")))


def undocumented(member: Doc[Any]) -> Iterator[str]:
    """Yields the names without docstrings in a module or a class, including itself. Inherited members are skipped."""
    if not member.docstring.strip():
        yield member.fullname
    if isinstance(member, Module | Class):
        for part in member.own_members if isinstance(member, Class) else member.members.values():
            if is_public(part) and says_more_than_its_type(part, member.obj):
                yield from undocumented(part)


def is_public(member: Doc[Any]) -> bool:
    """Whether users can see the name."""
    return not member.name.startswith("_") and member.modulename.partition(".")[0] == "vramscope"


def says_more_than_its_type(member: Doc[Any], parent: Any) -> bool:
    """Whether it is a class, a function or a property, not a plain value."""
    given = inspect.getattr_static(parent, member.name, None)
    return isinstance(member, Class | Function) or inspect.isdatadescriptor(given)


def main(folder: Path) -> int:
    """Writes the pages and reports missing docstrings."""
    sys.meta_path.insert(0, StandIns())
    vramscope = importlib.import_module("vramscope")
    # `import *` leaves it out, because it imports PyTorch.
    vramscope.__all__.append("ProfiledModule")
    # Resolve the names that `__getattr__` provides on first use.
    for name in vramscope.__all__:
        setattr(vramscope, name, getattr(vramscope, name))
    pdoc.render.configure(docformat="google", footer_text=f"vramscope {vramscope.__version__}")
    # pdoc warns about dictionary keys that it cannot place, and about modules that it finds twice.
    warnings.filterwarnings("ignore", "Cannot determine where|The module specification")
    names = modules()
    pdoc.pdoc(*names, output_directory=folder)
    lacking = [name for module in names for name in undocumented(Module(importlib.import_module(module)))]
    for name in lacking:
        print(f"{name} has no docstring", file=sys.stderr)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
