"""The pytest plugin, run in separate processes."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from vramscope.integrations.pytest import parse_size

TESTS = """
import pytest, torch

def tensor(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")

kept = []

def test_first():
    tensor(8)

@pytest.mark.limit_vram("32 MiB")
def test_small():
    tensor(16)

@pytest.mark.limit_vram("32 MiB")
def test_big():
    tensor(48)

@pytest.mark.limit_vram_leaks("1 MiB")
def test_leaks():
    kept.append(tensor(4))

@pytest.mark.limit_vram_leaks
def test_a_cycle_is_no_leak():
    loop = [tensor(4)]
    loop.append(loop)

@pytest.mark.limit_vram("1 MiB")
def test_error():
    tensor(2)
    raise ValueError("its own error")

@pytest.mark.limit_vram("64 MiB")
def test_nested():
    tensor(48)
    torch.cuda.reset_peak_memory_stats()
    import vramscope
    with vramscope.GPUMemoryProfiler().profile_context():
        tensor(1)
    assert torch.cuda.max_memory_allocated() < 48 << 20
"""


def run_pytest(folder, *arguments, text=TESTS):
    (folder / "test_it.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-p", "vramscope.integrations.pytest", "-p", "no:cacheprovider", "-q"]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=300, cwd=folder, env=environment
    )


@pytest.fixture
def _cuda():
    torch = pytest.importorskip("torch", reason="needs torch")
    if not torch.cuda.is_available():
        pytest.skip("needs gpu, or `vramscope phantom run`")


@pytest.mark.parametrize(
    ("size", "expected"),
    [("2 GiB", 2 << 30), ("1.5KiB", 1536), ("500 MB", 500_000_000), ("7", 7), (9, 9), ("3 b", 3)],
)
def test_sizes(size, expected):
    assert parse_size(size) == expected


SIZES = Path(__file__).parents[3] / "crates" / "vramscope-basics" / "sizes.txt"


def test_sizes_are_read_as_the_command_reads_them():
    for line in SIZES.read_text(encoding="utf-8").splitlines():
        text, _, expected = line.partition("|")
        if line.startswith("#"):
            continue
        try:
            found = str(parse_size(text))
        except ValueError:
            found = "none"
        assert found == expected, line


@pytest.mark.parametrize("size", ["", "GiB", "2 GiX", "-1 MB"])
def test_texts_that_are_no_sizes_are_refused(size):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(size)


def test_the_plugin_imports_nothing_if_it_is_not_used(tmp_path):
    text = """
import sys

def test_it():
    assert not {"torch", "vramscope.profiler", "cupy"} & set(sys.modules)
"""
    done = run_pytest(tmp_path, text=text)
    assert done.returncode == 0, done.stdout
    done = run_pytest(tmp_path, "--vramscope", text=text.replace('"vramscope.profiler", ', ""))
    assert done.returncode == 0, done.stdout
    assert "no test used CUDA" in done.stdout


def test_a_baseline_that_is_none_is_refused(tmp_path):
    (tmp_path / "vram.json").write_text("[]")
    done = run_pytest(tmp_path, "--vramscope-baseline", "vram.json", text="def test_it(): pass")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "vram.json is not a baseline" in done.stderr


@pytest.mark.parametrize("tests", ["[]", '{"test_it.py::test_it": 1}', '{"test_it.py::test_it": {"kept_bytes": 1}}'])
def test_tests_of_a_baseline_that_are_none_are_refused(tmp_path, tests):
    (tmp_path / "vram.json").write_text(f'{{"tests": {tests}}}')
    done = run_pytest(tmp_path, "--vramscope-baseline", "vram.json", text="def test_it(): pass")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "vram.json is not a baseline" in done.stderr


def test_a_baseline_without_a_file_is_refused(tmp_path):
    done = run_pytest(tmp_path, "--vramscope-update-baseline", text="def test_it(): pass")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--vramscope-update-baseline needs --vramscope-baseline FILE" in done.stderr


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("limit_vram", "limit_vram: limit_vram() missing 1 required positional argument: 'size'"),
        (
            "limit_vram('2 GiX')",
            "limit_vram: '2 GiX' is not a size: a size is a number of bytes or has a unit, such as 24GiB or 512MB",
        ),
        (
            "limit_vram_leaks(bytes=3)",
            "limit_vram_leaks: limit_vram_leaks() got an unexpected keyword argument 'bytes'",
        ),
    ],
)
def test_invalid_markers_fail_with_a_message(tmp_path, marker, said):
    done = run_pytest(tmp_path, text=f"import pytest\n\n@pytest.mark.{marker}\ndef test_it(): pass")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert said in done.stdout
    assert "Traceback" not in done.stdout


AFTER_A_FAILURE = """
import pytest, torch

def tensor(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")

kept = []

def test_fails():
    held = tensor(32)
    loop = [tensor(8)]
    loop.append(loop)
    raise ValueError("its own error")

@pytest.mark.limit_vram("8 MiB")
@pytest.mark.limit_vram_leaks("1 MiB")
def test_leaks():
    kept.append(tensor(4))

@pytest.mark.limit_vram("8 MiB")
def test_rises():
    tensor(16)
"""


@pytest.mark.usefixtures("_cuda")
def test_memory_of_a_failed_test_does_not_change_later_limits(tmp_path):
    done = run_pytest(tmp_path, "--vramscope", text=AFTER_A_FAILURE)
    assert "limit_vram_leaks: the test left 4.00 MiB allocated; the limit is 1.00 MiB" in done.stdout, done.stdout
    assert "limit_vram: the test rose 16.00 MiB" in done.stdout


DEVICES = """
import pytest, torch

def tensor(mib, device):
    return torch.empty(mib << 20, dtype=torch.uint8, device=device)

kept = []

@pytest.fixture(autouse=True)
def begun():
    for device in ("cuda:0", "cuda:1"):
        tensor(1, device)

@pytest.mark.limit_vram("8 MiB", "cuda:1")
@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_second(device):
    tensor(16, device)

@pytest.mark.limit_vram("64 MiB")
@pytest.mark.limit_vram_leaks("1 MiB", device="cuda:1")
def test_both():
    kept.append(tensor(4, "cuda:1"))
"""


@pytest.mark.usefixtures("_cuda")
def test_each_limit_is_of_its_device(tmp_path):
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs gpus: two of them")
    done = run_pytest(tmp_path, text=DEVICES)
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "limit_vram: the test rose 16.00 MiB" in done.stdout
    assert "limit_vram_leaks: the test left 4.00 MiB allocated; the limit is 1.00 MiB" in done.stdout
    assert "test_second[cuda:1]" in done.stdout


@pytest.mark.usefixtures("_cuda")
def test_limits_table_and_properties(tmp_path):
    done = run_pytest(tmp_path, "--vramscope", "--vramscope-top", "2", "--junit-xml", "junit.xml", "--strict-markers")
    assert "3 failed, 4 passed" in done.stdout, done.stdout
    above = "above its start"
    assert f"limit_vram: the test rose 48.00 MiB {above}; the limit is 32.00 MiB" in done.stdout
    assert "limit_vram_leaks: the test left 4.00 MiB allocated; the limit is 1.00 MiB" in done.stdout
    assert "ValueError: its own error" in done.stdout
    table = done.stdout[done.stdout.index(" GPU memory ") :].splitlines()
    assert [line.split() for line in table[1:4]] == [
        ["peak", "kept", "allocations", "test"],
        ["48.00", "MiB", "0", "B", "1", "test_it.py::test_big"],
        ["48.00", "MiB", "0", "B", "2", "test_it.py::test_nested"],
    ]
    suite = ElementTree.parse(tmp_path / "junit.xml")
    properties = {
        case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")}
        for case in suite.iter("testcase")
    }
    assert properties["test_leaks"] == {
        "vramscope_peak_bytes": str(4 << 20),
        "vramscope_kept_bytes": str(4 << 20),
        "vramscope_allocations": "1",
    }
    assert properties["test_error"]["vramscope_peak_bytes"] == str(2 << 20)


@pytest.mark.usefixtures("_cuda")
def test_a_baseline(tmp_path):
    text = TESTS[: TESTS.index("@pytest.mark")]
    done = run_pytest(tmp_path, "--vramscope-baseline", "vram.json", "--vramscope-update-baseline", text=text)
    assert "wrote 1 tests to vram.json" in done.stdout, done.stdout
    written = json.loads((tmp_path / "vram.json").read_text())
    assert written == {"tests": {"test_it.py::test_first": {"peak_bytes": 8 << 20, "kept_bytes": 0}}}
    assert run_pytest(tmp_path, "--vramscope-baseline", "vram.json", text=text).returncode == 0
    more = run_pytest(tmp_path, "--vramscope-baseline", "vram.json", text=text.replace("tensor(8)", "tensor(9)"))
    assert "the baseline of 8.00 MiB: the test rose 9.00 MiB" in more.stdout
    arguments = ("--vramscope-baseline", "vram.json", "--vramscope-tolerance", "20")
    assert run_pytest(tmp_path, *arguments, text=text.replace("tensor(8)", "tensor(9)")).returncode == 0


@pytest.mark.usefixtures("_cuda")
def test_with_xdist(tmp_path):
    pytest.importorskip("xdist", reason="needs xdist")
    done = run_pytest(tmp_path, "-p", "xdist", "-n", "2", "--vramscope")
    assert "3 failed, 4 passed" in done.stdout, done.stdout
    assert "test_it.py::test_big" in done.stdout[done.stdout.index(" GPU memory ") :]
