"""Recordings: answers, errors, other threads, Ctrl-C."""

import gzip
import json
import os
import subprocess
import sys
import threading
import types
import typing
from pathlib import Path

import pytest
import vramscope
from vramscope import answers

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FILES = sorted(path for path in EXAMPLES.iterdir() if ".pickle" in path.name)


def command(*arguments: object) -> object:
    done = subprocess.run(
        [sys.executable, "-m", "vramscope", *map(str, arguments)], capture_output=True, timeout=120, cwd=ROOT
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def oom() -> vramscope.Recording:
    return vramscope.read(EXAMPLES / "oom.pickle")


def test_questions_of_the_page(oom: vramscope.Recording):
    events = oom.ask("events", first=0, count=3)
    assert {len(column) for column in events.values() if isinstance(column, list)} == {3}
    live = oom.ask("live", moment=1000, by="line", calls="own", inverted=False, only_found=False)
    assert live["blocks"] > 0
    both = oom.ask("comparison", other=vramscope.read(EXAMPLES / "leak.pickle"))
    assert both["changes"]
    with pytest.raises(ValueError, match="no moment 5000"):
        oom.ask("layout", moment=5000)
    with pytest.raises(ValueError, match="unknown variant `weather`"):
        oom.ask("weather")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_answers_are_those_of_the_command(file: Path):
    recording = vramscope.read(str(file))
    report = command("report", file, "--json")
    # `repr` also compares number types and key order.
    assert repr(recording.report()) == repr(report)
    (device,) = report["devices"]
    for key in ("ooms", "leaks", "regions", "fragmentation", "churn", "quality"):
        assert getattr(recording, key)() == device[key], key
    assert recording.peaks() == {key: device[key] for key in recording.peaks()}
    by_line = command("report", file, "--json", "--by", "line")["devices"][0]["holders_at_peak"]
    assert recording.holders() == by_line
    assert recording.holders("line", top=1) == by_line[:1]
    at = command("report", file, "--json", "--by", "function", "--at", "100")["devices"][0]["at"]
    assert recording.holders("function", at=100) == at["holders"]
    assert recording.info() == command("info", file, "--json")
    assert recording.devices == [device["device"]]


def test_a_replay_is_that_of_the_command(oom):
    arguments = ["replay", EXAMPLES / "oom.pickle", "--json"]
    assert oom.replay() == command(*arguments)["devices"][0]
    conf = "expandable_segments:True"
    asked = command(*arguments, "--conf", conf, "--capacity", "24GiB", "--overhead", "500MB", "--torch", "2.11")
    assert oom.replay(conf=conf, capacity="24GiB", overhead=500_000_000, torch="2.11") == asked["devices"][0]
    assert oom.replay(gpu="a100-40gb") == command(*arguments, "--gpu", "a100-40gb")["devices"][0]
    assert oom.replay(find_capacity=True) == command(*arguments, "--find-capacity")["devices"][0]
    sweep = "max_split_size_mb=32..128"
    assert oom.replay(sweep=sweep) == command(*arguments, "--sweep", sweep)["devices"][0]


def test_a_check_is_that_of_the_command(oom):
    arguments = ["check", EXAMPLES / "oom.pickle", "--json"]
    asked = command(*arguments, "--max-peak", "1GiB", "--max-category", "activation=1GiB", "--no-oom")
    answer = oom.check(max_peak="1GiB", max_category=["activation=1GiB"], no_oom=True)
    # Texts name the arguments as Python does.
    texts = [verdict.pop("text") for verdict in answer["devices"][0]["verdicts"]]
    commands = [verdict.pop("text") for verdict in asked["devices"][0]["verdicts"]]
    assert texts == [text.replace("--max-", "max_") for text in commands]
    assert answer["devices"][0]["verdicts"] == asked["devices"][0]["verdicts"]
    baseline = vramscope.read(EXAMPLES / "leak.pickle")
    assert not oom.check(baseline=baseline, max_growth="5%")["kept"]
    assert oom.check(baseline=oom)["kept"]


def test_a_filter_and_a_range_are_those_of_the_command():
    path = EXAMPLES / "training.pickle.zst"
    recording, arguments = vramscope.read(path), ["report", path, "--json"]
    assert recording.report(filter="forward") == command(*arguments, "--filter", "forward")
    assert recording.report(at="3..40", by="line") == command(*arguments, "--at", "3..40", "--by", "line")
    some, every = recording.holders(filter="forward"), recording.holders()
    assert 0 < sum(holder["bytes"] for holder in some) < sum(holder["bytes"] for holder in every)


def test_a_diff_is_that_of_the_command(oom):
    other = vramscope.read(EXAMPLES / "leak.pickle")
    assert oom.diff(other) == command("diff", EXAMPLES / "oom.pickle", EXAMPLES / "leak.pickle", "--json")
    assert oom.diff(oom)["same"]


def test_the_text_is_that_of_the_command(oom):
    command = subprocess.run(
        [sys.executable, "-m", "vramscope", "report", oom.name], capture_output=True, text=True, timeout=60
    )
    told, printed = oom.text().splitlines(), command.stdout.splitlines()
    differ = [(a, b) for a, b in zip(told, printed, strict=True) if a != b]
    # Advice uses the names of the Python API.
    assert all("Recording.replay" in a or "at=" in a for a, _ in differ), differ
    assert "\x1b" not in oom.text()


def shape(value: object, of: object, where: str) -> None:
    """Fails if a value does not have the given type."""
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if origin in (typing.Union, types.UnionType):
        of = next((a for a in arguments if (value is None) == (a is type(None))), None)
        assert of is not None, where
        shape(value, of, where)
    elif origin is typing.Literal:
        assert value in arguments, where
    elif origin is list:
        assert isinstance(value, list), where
        for item in value:
            shape(item, arguments[0], where + "[]")
    elif origin is dict:
        assert isinstance(value, dict), where
        for item in value.values():
            shape(item, arguments[1], where + "{}")
    elif typing.is_typeddict(of):
        hints = typing.get_type_hints(of, localns={"NotRequired": typing.Optional})
        optional = {key for key, hint in of.__annotations__.items() if "NotRequired" in str(hint)}
        assert isinstance(value, dict), where
        assert set(value) <= set(hints), (where, set(value) - set(hints))
        assert set(hints) - optional <= set(value), (where, set(hints) - set(value))
        for key, item in value.items():
            shape(item, hints[key], f"{where}.{key}")
    else:
        assert isinstance(value, of), (where, value, of)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_answers_have_their_types(file: Path):
    if sys.version_info < (3, 11):
        pytest.skip("needs python-3.11, whose typing has NotRequired")
    recording = vramscope.read(file)
    shape(recording.report(), answers.Report, "report")
    shape(recording.report(at=10), answers.Report, "report")
    shape(recording.report(at="3..9"), answers.Interval, "report")
    shape(
        recording.check(max_peak=1, max_reserved=1, no_leaks=True, no_oom=True, baseline=recording),
        answers.Check,
        "check",
    )
    shape(recording.info(), answers.Info, "info")
    shape(recording.peaks(), answers.Peaks, "peaks")
    shape(recording.replay(), answers.Replay, "replay")
    shape(recording.replay(capacity="6GiB"), answers.Replay, "replay")
    shape(recording.diff(vramscope.read(EXAMPLES / "oom.pickle")), answers.Diff, "diff")


def test_read_takes_paths_files_and_bytes(tmp_path: Path, oom):
    path = EXAMPLES / "oom.pickle"
    whole = path.read_bytes()
    packed = tmp_path / "oom.pickle.gz"
    packed.write_bytes(gzip.compress(whole))
    with path.open("rb") as file:
        others = [whole, bytearray(whole), memoryview(whole), file, packed, str(packed), packed.read_bytes()]
        peaks = [vramscope.read(other).peaks() for other in others]
    assert peaks == [oom.peaks()] * len(others)


def test_bad_files_say_where_and_what_to_do(tmp_path: Path):
    whole = (EXAMPLES / "oom.pickle").read_bytes()
    with pytest.raises(vramscope.ReadError, match=r"^bytes: the file ends at byte 5000, .* copy or record it again$"):
        vramscope.read(whole[:5000])
    with pytest.raises(vramscope.ReadError, match=r"opcode REDUCE at byte \d+"):
        vramscope.read(b"\x80\x02]K\x01K\x02\x86R.")
    packed = gzip.compress(whole)
    with pytest.raises(vramscope.ReadError, match=r"expands to more than 4096 bytes.*give a larger `max_expanded`"):
        vramscope.read(packed, max_expanded=4096)
    text = tmp_path / "train.py"
    text.write_text("import torch")
    with pytest.raises(vramscope.ReadError, match=r"train\.py: not a memory snapshot but text"):
        vramscope.read(text)
    with pytest.raises(FileNotFoundError, match=r"missing\.pickle"):
        vramscope.read(tmp_path / "missing.pickle")
    with pytest.raises(IsADirectoryError):
        vramscope.read(tmp_path)


def hostile() -> typing.Iterator[bytes]:
    """Yields the fuzzing corpus, and a recording truncated and modified at many places."""
    for kind in ("read", "log"):
        for path in sorted((ROOT / "fuzz/corpus" / kind).iterdir()):
            yield path.read_bytes()
    whole = (EXAMPLES / "leak.pickle").read_bytes()
    for at in range(0, len(whole), len(whole) // 50):
        yield whole[:at]
        yield whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]


def test_hostile_bytes_crash_nothing():
    read, refused = 0, 0
    for data in hostile():
        try:
            recording = vramscope.read(data, progress=False)
        except vramscope.ReadError:
            refused += 1
            continue
        read += 1
        assert repr(recording)
        assert isinstance(recording.text(), str)
        for name in ("events", "allocations", "segments", "holders"):
            assert len(recording.table(name)) >= 0
    assert read > 20
    assert refused > 50


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda r: r.peaks(device=7), "has no device 7; it has 0"),
        (lambda r: r.holders("colour"), "cannot group by"),
        (lambda r: r.holders(at=1_000_000), "has no event 1000000"),
        (lambda r: r.table("rows"), "unknown table"),
        (lambda r: r.table("events", at=1), "apply only to holders"),
        (lambda r: r.replay(capacity="24X"), "a size is a number"),
        (lambda r: r.replay(capacity=5, gpu="a100-40gb"), "give one device size"),
        (lambda r: r.replay(gpu="h2000"), "for other GPUs, use `capacity`"),
        (lambda r: r.replay(conf="max_split_size_mb:x"), "conf: "),
        (lambda r: r.replay(capacity=5, overhead=5), "leaves nothing"),
        (lambda r: r.replay(overhead=5), "part of a device"),
        (lambda r: r.replay(capacity=5, find_capacity=True), "find_capacity searches for"),
        (lambda r: r.replay(torch="new"), "a release is two numbers"),
        (lambda r: r.replay(sweep="max_split_size_mb"), "sweep: expected KEY=A..B"),
        (lambda r: r.report(at="9..3"), "at: event 3 is before event 9"),
        (lambda r: r.report(filter="("), "filter: invalid regular expression"),
        (lambda r: r.diff(r, at_step=1), "no steps were found on device 0"),
        (lambda r: r.check(), "nothing to check: give max_peak, max_reserved"),
        (lambda r: r.check(max_growth=5), "max_growth limits the growth over a baseline"),
        (lambda r: r.replay(sweep="max_split_size_mb=20..40", find_capacity=True), "find_capacity searches"),
        (lambda r: r.diff(r, device=7), "has no device 7; it has 0"),
        (lambda r: r.check(max_category=["activation"]), "max_category: expected CATEGORY=SIZE"),
        (lambda r: r.check(max_growth="x%"), "max_growth: expected a percentage"),
        (lambda r: r.export("run.txt"), "unknown format"),
        (lambda r: r.export("run.pickle", at=3), "`at` does not apply to pickle"),
        (lambda r: r.export("run.pickle", table="events"), "`table` applies only to csv"),
    ],
)
def test_invalid_requests_are_refused(oom, ask, why: str):
    with pytest.raises(ValueError, match=why):
        ask(oom)


def test_several_devices_are_named():
    events = [{"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []}]
    two = vramscope.read(json.dumps({"segments": [], "device_traces": [events, events]}).encode())
    assert two.devices == [0, 1]
    with pytest.raises(ValueError, match="has the devices 0, 1; name one"):
        two.peaks()
    assert two.peaks(device=1)["peak_requested_bytes"] == 1000
    assert len(two.events) == 2
    assert len(two.table("events", device=1)) == 1


def test_exports_are_whole_files(oom, tmp_path: Path):
    for name in ("out.json", "out.pb.gz", "out.folded", "out.svg", "out.csv", "out.parquet"):
        assert oom.export(tmp_path / name) > 0
        assert (tmp_path / name).stat().st_size > 50
    assert oom.export(tmp_path / "again.pickle") == len(oom.events)
    assert vramscope.read(tmp_path / "again.pickle").peaks() == oom.peaks()
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o666 & ~mask
    with pytest.raises(OSError, match="nowhere"):
        oom.export(tmp_path / "nowhere" / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["out.json", "out.pb.gz", "out.folded", "out.svg", "out.csv", "out.parquet", "again.pickle"]
    )


def large(rows: int = 60_000) -> bytes:
    """A recording as JSON that takes a while to read."""
    frames = [{"name": f"f{i}", "filename": f"{i}.py", "line": i} for i in range(20)]
    event = {"action": "alloc", "size": 512, "stream": 0, "frames": frames}
    return json.dumps(
        {"segments": [], "device_traces": [[event | {"addr": 4096 + 512 * i} for i in range(rows)]]}
    ).encode()


def test_other_threads_run_meanwhile():
    data = large()
    counted = []
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            counted.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = len(counted)
        seen: list[int] = []
        vramscope.read(data, progress=seen.append).peaks()
        assert len(counted) > before
        assert seen[-1] == len(data)
        assert seen == sorted(seen)
    finally:
        done.set()
        thread.join()


# A recording sent through a pipe, slower than the progress bar's delay.
SLOW = """
import os, sys, threading, time, vramscope
whole = open(sys.argv[1], "rb").read()
read, write = os.pipe()
def send():
    os.write(write, whole[:5000])
    time.sleep(1.3)
    os.write(write, whole[5000:])
    os.close(write)
threading.Thread(target=send).start()
print(vramscope.read(f"/proc/self/fd/{read}").devices)
"""


def test_a_terminal_shows_a_progress_bar_and_removes_it():
    pty = pytest.importorskip("pty")
    terminal, stderr = pty.openpty()
    command = [sys.executable, "-c", SLOW, str(EXAMPLES / "leak.pickle")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=60)
    os.close(stderr)
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)
    assert done.stdout == "[0]\n", shown
    assert "\rreading [" in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize("stderr", ["sys.stderr.close()", "sys.stderr = None", "sys.stderr = object()"])
def test_no_progress_is_shown_without_stderr(stderr: str):
    program = SLOW.replace("whole =", f"{stderr}; whole =")
    command = [sys.executable, "-c", program, str(EXAMPLES / "leak.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[0]\n", done.stderr


def test_a_callback_that_raises_ends_the_reading():
    def raises(_: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        vramscope.read(large(5000), progress=raises)


INTERRUPTED = """
import os, signal, sys, threading, time, vramscope
class Endless:
    pass
# A pipe that nobody writes to: only Ctrl-C ends the reading of it.
read, write = os.pipe()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    vramscope.read(f"/proc/self/fd/{read}")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_reading():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0


def test_ctrl_c_ends_a_computation():
    program = f"""
import os, signal, threading, vramscope
recording = vramscope.read({str(EXAMPLES / "training.pickle.zst")!r})
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.001)
try:
    while True:
        recording.replay(find_capacity=True)
except KeyboardInterrupt:
    print("interrupted", recording.devices)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted [0]\n", done.stderr


def test_import_vramscope_imports_no_large_module():
    program = """
import sys
before = set(sys.modules)
import vramscope
recording = vramscope.read(sys.argv[1])
recording.report()
heavy = ("cupy", "enum", "json", "numpy", "pyarrow", "re", "torch", "typing", "typing_extensions")
print([name for name in heavy if name in sys.modules and name not in before])
"""
    command = [sys.executable, "-c", program, str(EXAMPLES / "oom.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_handler_of_interrupts_is_kept():
    # Set first: a test run in the background of a shell ignores interrupts.
    program = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import vramscope
vramscope.read(sys.argv[1]).report()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    command = [sys.executable, "-c", program, str(EXAMPLES / "oom.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
