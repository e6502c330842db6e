"""The reference of the package's names, made of its docstrings: python python/reference.py FOLDER

It ends with exit code 1 where a public name has no docstring. PyTorch and the other tools that the package works with
need not be there: what stands on them is read with stand-ins in their place. It needs pdoc, and the package's native
part.
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

#: Tools that are large, and of which nothing but names is needed here.
TOOLS = ("IPython", "cupy", "lightning", "torch", "transformers")


class Name(type):
    """A class that has every attribute, and decorates nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {"__module__": cls.__module__})

    def __call__(cls, *given: Any, **named: Any) -> Any:
        """What it was given, as a decorator's answer; without that, an object."""
        return given[0] if given else super().__call__(**named)


class StandIn(types.ModuleType):
    """A module that has every name."""

    __path__: MutableSequence[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {"__module__": self.__name__})


class StandIns(MetaPathFinder, Loader):
    """Finds a stand-in for each tool and its parts."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """It is a tool, or a part of one."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in TOOLS else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Of nothing but a name."""
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing in it to run."""


def modules() -> list[str]:
    """The public modules of the package."""
    root = Path(__file__).parent
    paths = (path.relative_to(root).with_suffix("") for path in sorted((root / "vramscope").rglob("*.py")))
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    return sorted(name for name in names if not any(part.startswith("_") for part in name.split(".")))


def undocumented(member: Doc[Any]) -> Iterator[str]:
    """What of a module or a class, and itself, says nothing of itself. What is inherited is told elsewhere."""
    if not member.docstring.strip():
        yield member.fullname
    if isinstance(member, Module | Class):
        for part in member.own_members if isinstance(member, Class) else member.members.values():
            if is_public(part) and says_more_than_its_type(part, member.obj):
                yield from undocumented(part)


def is_public(member: Doc[Any]) -> bool:
    """Whether it is a name that users have."""
    return not member.name.startswith("_") and member.modulename.partition(".")[0] == "vramscope"


def says_more_than_its_type(member: Doc[Any], parent: Any) -> bool:
    """Whether it is no plain value."""
    given = inspect.getattr_static(parent, member.name, None)
    return isinstance(member, Class | Function) or inspect.isdatadescriptor(given)


def main(folder: Path) -> int:
    """Writes the pages, and tells what they lack."""
    sys.meta_path.insert(0, StandIns())
    vramscope = importlib.import_module("vramscope")
    # Not among the names that `import *` gives, for it imports PyTorch.
    vramscope.__all__.append("ProfiledModule")
    # What is looked up when it is first asked for.
    for name in vramscope.__all__:
        setattr(vramscope, name, getattr(vramscope, name))
    pdoc.render.configure(docformat="google", footer_text=f"vramscope {vramscope.__version__}")
    # A key of a dictionary stands with the dictionary that has it first, and a module may be found twice.
    warnings.filterwarnings("ignore", "Cannot determine where|The module specification")
    names = modules()
    pdoc.pdoc(*names, output_directory=folder)
    lacking = [name for module in names for name in undocumented(Module(importlib.import_module(module)))]
    for name in lacking:
        print(f"{name} has no docstring", file=sys.stderr)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
