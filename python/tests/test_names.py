"""Every name in docs/names.md exists in the package."""

import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/names.md"
# Its base class is PyTorch's.
NEEDS_TORCH = {"vramscope.ProfiledModule"}


def names():
    found = set()
    for line in PAGE.read_text().splitlines():
        cells = line.strip("|").split("|")
        if line.startswith("| ") and len(cells) == 5:
            found.update(re.findall(r"`(vramscope\.[^`]*)`", "".join(cells[3:])))
    return sorted(found)


def find(name):
    """Resolves a name and its parameter in brackets."""
    path, parameter = re.fullmatch(r"([\w.]+)(?:\((\w+)\))?", name).groups()
    found, *attributes = importlib.import_module("vramscope"), *path.split(".")[1:]
    at = "vramscope"
    for attribute in attributes:
        at += f".{attribute}"
        if inspect.ismodule(found) and importlib.util.find_spec(f"{found.__name__}.{attribute}") is not None:
            found = importlib.import_module(f"{found.__name__}.{attribute}")
        elif hasattr(found, attribute):
            found = getattr(found, attribute)
        else:
            # Instance attributes: declared in a class, or set in its constructor.
            declared = [vars(base).get("__annotations__", {}) for base in getattr(found, "__mro__", ())]
            sets = f"self.{attribute}" in inspect.getsource(found)
            assert any(attribute in some for some in declared) or sets, f"there is no {at}"
            found = None
    if parameter is not None:
        function = found.__init__ if inspect.isclass(found) else found
        assert parameter in inspect.signature(function).parameters, f"{path} takes no {parameter}"


@pytest.mark.parametrize("name", names())
def test_a_name_is_there(name):
    if (name in NEEDS_TORCH or name.startswith("vramscope.torch.")) and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    find(name)


def test_the_name_test_detects_wrong_names():
    assert len(names()) > 100
    for name in (
        "vramscope.Recordings",
        "vramscope.cupy.MemoryHook.free",
        "vramscope.cupy.LineProfileHook(depth)",
        "vramscope.function_hooks.CupyMemoryProfileHook.history",
    ):
        with pytest.raises(AssertionError, match=r"there is no|takes no"):
            find(name)
