"""Programs watched by `vramscope top`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import vramscope

MIB = 1 << 20


class Counted:
    """A source with preset values."""

    name = "a list of bytes"
    device_id = None
    knows_holders = True

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self.fails = False

    def read(self):
        if self.fails:
            raise RuntimeError("the device is lost")
        return {
            "now": {"allocated_bytes": self.now, "reserved_bytes": 8 * MIB},
            "peak": {"allocated_bytes": self.peak},
            "inactive_split_bytes": 17,
        }

    def holders(self, top: int):
        held = [{"bytes": self.now, "count": 2, "stack": ["train.py:12 load", "train.py:40 <module>"]}]
        return held[:top]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def top(*arguments: str) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-m", "vramscope", "top", "--json", *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["programs"]


def test_top_shows_what_the_source_says(folder: Path):
    source = Counted()
    source.now = source.peak = 3 * MIB
    with vramscope.serve(source, title="training") as serving:
        (path,) = serving.paths
        assert Path(path) == folder / "vramscope" / f"{os.getpid()}.sock"
        (program,) = top()
        assert program["title"] == "training"
        assert program["source_name"] == "a list of bytes"
        assert program["now"]["allocated_bytes"] == 3 * MIB
        assert program["now"]["requested_bytes"] is None
        assert program["inactive_split_bytes"] == 17
        (holder,) = program["holders"]
        assert holder == {"bytes": 3 * MIB, "count": 2, "stack": ["train.py:12 load", "train.py:40 <module>"]}
    assert not Path(path).exists()
    assert top() == []


@pytest.mark.usefixtures("folder")
def test_a_peak_between_two_looks_is_seen():
    import socket

    source = Counted()
    with vramscope.serve(source, holders=False) as serving, socket.socket(socket.AF_UNIX) as client:
        client.connect(serving.paths[0])
        lines = client.makefile("rw")

        def ask(question: dict) -> dict:
            lines.write(json.dumps(question) + "\n")
            lines.flush()
            return json.loads(lines.readline())

        assert not ask({"ask": "hello"})["collects_holders"]
        assert ask({"ask": "tick"})["high"]["allocated_bytes"] == 0
        source.peak = 5 * MIB
        assert ask({"ask": "tick"})["high"]["allocated_bytes"] == 5 * MIB
        # The value has not risen since then.
        assert ask({"ask": "tick"})["high"]["allocated_bytes"] == 0
        source.fails = True
        assert "the device is lost" in ask({"ask": "tick"})["error"]
        source.fails = False
        assert ask({"ask": "tick", "holders": 5})["holders"] is None


@pytest.mark.usefixtures("folder")
def test_a_program_that_ends_leaves_no_socket():
    program = """
import vramscope
class Source:
    name, device_id, knows_holders = "nothing", None, False
    def read(self): return {"now": {"allocated_bytes": 1}}
    def holders(self, top): return None
print(vramscope.serve(Source()).paths[0])
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr == ""
    assert not Path(done.stdout.strip()).exists()


def test_serve_says_what_is_missing(folder: Path):
    program = "import vramscope; vramscope.serve()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "VramscopeError: nothing to serve: the program has imported neither PyTorch with a GPU" in done.stderr
    with pytest.raises(OSError, match="nowhere"):
        vramscope.serve(Counted(), path=str(folder / "nowhere" / "s.sock"))


@pytest.mark.usefixtures("folder")
def test_pytorch_is_seen_with_its_lines():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs gpu, or `vramscope phantom run`")
    with vramscope.serve():
        kept = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
        program = top()[0]
        assert program["now"]["allocated_bytes"] == torch.cuda.memory_allocated()
        assert program["counts"]["num_ooms"] == 0
        assert program["holders"][0]["bytes"] == 64 * MIB
        assert program["holders"][0]["stack"][0].endswith("test_pytorch_is_seen_with_its_lines")
        del kept
