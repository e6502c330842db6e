"""The API reference built from the docstrings."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "reference.py"
pytest.importorskip("pdoc", reason="needs pdoc")


def test_every_public_name_has_a_docstring(tmp_path: Path):
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    written = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    modules = ("answers", "cupy", "function_hooks", "integrations/pytest", "profiler", "torch")
    assert {"index.html", "vramscope.html", *(f"vramscope/{name}.html" for name in modules)} <= set(written)
    # A native name, a lazily imported name, a name that needs PyTorch, and a key of an answer.
    for page, name in (
        ("vramscope.html", "Recording.fragmentation"),
        ("vramscope.html", "OOMFlightRecorder.dump"),
        ("vramscope.html", "ProfiledModule.forward"),
        ("vramscope/torch.html", "record"),
        ("vramscope/answers.html", "OutOfMemory.missing_bytes"),
    ):
        assert f'id="{name}"' in written[page], (page, name)


def test_a_name_without_a_docstring_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import reference
    from pdoc.doc import Module

    made = types.ModuleType("vramscope.made", "Says what it is.")
    made.__all__ = ["Told"]
    program = "class Told:\n    'Says what it is.'\n    def silent(self): ...\n    @property\n    def also(self): ...\n"
    exec(program, made.__dict__)
    assert set(reference.undocumented(Module(made))) == {"vramscope.made.Told.silent", "vramscope.made.Told.also"}


def test_importing_all_names_needs_no_pytorch():
    program = "import sys; from vramscope import *; print(read, GPUMemoryProfiler, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("False\n"), done.stderr
