"""PyTorch's own viewer opens recordings of `vramscope.torch.record`, including categories."""

import base64
import json
import pickle
import pickletools
import re
from pathlib import Path

import pytest
from torch_on_phantom import TRAIN, events, needs_torch, python

pytestmark = needs_torch

PROGRAM = f"""
import json, pickle, torch, vramscope.torch
from torch.cuda import _memory_viz as viz
{TRAIN}
with vramscope.torch.record("before.pickle", model=model, optimizer=optimizer):
    step()
kept = torch.empty(16 << 20, device="cuda")
with vramscope.torch.record("run.pickle", model=model, optimizer=optimizer):
    step()
before, run = (pickle.load(open(name, "rb")) for name in ("before.pickle", "run.pickle"))
as_it_is = lambda text: text
told = {{
    "segsum": viz.segsum(run),
    "trace": viz.trace(run),
    "segments": viz.segments(run, as_it_is),
    "memory": viz.memory(run, as_it_is),
    "compare": viz.compare(before["segments"], run["segments"], as_it_is),
    "trace_plot": viz.trace_plot(run),
    "segment_plot": viz.segment_plot(run),
}}
json.dump(told, open("told.json", "w"))
"""

# The opcodes that the page's unpickler knows, of protocols 2 to 4.
KNOWN = """
    APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPUT BINUNICODE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE FRAME
    LONG1 LONG_BINGET LONG_BINPUT MARK MEMOIZE NEWFALSE NEWTRUE NONE PROTO SETITEM SETITEMS SHORT_BINUNICODE STOP TUPLE
    TUPLE1 TUPLE2 TUPLE3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory_viz")
    done = python(folder, PROGRAM)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_view_of_memory_viz_opens_a_recording_with_purposes(folder: Path):
    told = json.loads((folder / "told.json").read_text())
    allocs = [event for event in events(folder / "run.pickle") if event["action"] == "alloc"]
    purposes = [event["user_metadata"] for event in allocs]
    assert "vramscope:category=gradient;module=0;phase=backward" in [text.partition("\n")[0] for text in purposes]
    assert all(purpose.startswith("vramscope:category=") for purpose in purposes), purposes
    assert len(re.findall(r"^\w+ = \w+\[", told["trace"], re.MULTILINE)) == len(allocs)
    assert re.search(
        r"^only_after;.*;active_allocated;program\.py:\d+:<module> 67108864$", told["compare"], re.MULTILINE
    )
    assert "program.py" in told["memory"]
    assert "program.py" in told["segments"]
    assert "total_allocated" in told["segsum"]
    for view in ("trace_plot", "segment_plot"):
        carried = pickle.loads(base64.b64decode(re.search(r'"base64": "([^"]+)"', told[view])[1]))
        assert [e["user_metadata"] for e in carried["device_traces"][0] if e["action"] == "alloc"] == purposes


def test_the_page_can_unpickle_a_recording(folder: Path):
    with (folder / "run.pickle").open("rb") as file:
        assert {opcode.name for opcode, _, _ in pickletools.genops(file)} <= set(KNOWN.split())
