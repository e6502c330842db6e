import ast
import os
import stat
import threading
from pathlib import Path

import pytest
from vramscope import VramscopeError, _files, read
from vramscope.profiler import OOMFlightRecorder, OOMFlightRecorderConfig

PACKAGE = Path(_files.__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples"
OTHER = 65534


def writes(tree: ast.AST) -> list[str]:
    """Finds calls that create or replace a file by path."""
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        modes = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        mode = [m.value for m in modes if isinstance(m, ast.Constant) and isinstance(m.value, str)]
        is_mode = any(set(m) <= set("rwxabt+") and set(m) & set("wxa+") for m in mode)
        # `_files.write_text` is allowed.
        is_ours = name == "write_text" and isinstance(call.func, ast.Name)
        if (name in ("write_text", "write_bytes", "touch") and not is_ours) or (name == "open" and is_mode):
            found.append(f"line {call.lineno}: {name}")
    flags = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "O_CREAT")
    found += [f"line {flag.lineno}: O_CREAT" for flag in flags]
    return found


def test_each_way_to_write_is_known():
    for text in [
        'open(p, "w")',
        'open(p, mode="xb")',
        'p.open("wb")',
        "p.write_text(t)",
        "p.write_bytes(b)",
        "os.open(p, os.O_WRONLY | os.O_CREAT)",
        'open(p, "a")',
    ]:
        assert writes(ast.parse(text)), text
    for text in ["open(p)", 'open(p, "rb")', 'p.open("r")', "write_text(p, t)", "book.open()"]:
        assert not writes(ast.parse(text)), text


def test_the_package_writes_files_in_one_module():
    wrong = {}
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "_files.py"]
    assert len(files) > 30
    for path in files:
        if found := writes(ast.parse(path.read_text())):
            wrong[str(path)] = found
    # Files that the command injects into programs cannot use the package; they open files by descriptor.
    files = list((EXAMPLES.parent / "crates").glob("*/src/**/*.py"))
    assert files
    for path in files:
        found = [call for call in writes(ast.parse(path.read_text())) if not call.endswith("O_CREAT")]
        if found:
            wrong[str(path)] = found
    assert not wrong


def test_the_former_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ValueError), _files.replacing(path) as file:  # noqa: PT011, PT012
        file.write(b"new")
        raise ValueError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]
    _files.write_text(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_pipes_and_devices_stay(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    texts = []
    reader = threading.Thread(target=lambda: texts.append(pipe.read_text()))
    reader.start()
    _files.write_text(pipe, "text")
    reader.join()
    assert texts == ["text"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    _files.write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give a pipe away")
def test_pipes_of_other_users_are_not_written_to(tmp_path):
    pipe, link = tmp_path / "pipe.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    os.chown(pipe, OTHER, OTHER)
    link.symlink_to(pipe)
    recording = read(EXAMPLES / "oom.pickle")
    for has_reader in (False, True):
        reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK) if has_reader else None
        for path in (pipe, link):
            for write in (
                lambda path: _files.write_text(path, "text"),
                lambda path: recording.view(html=path),
                lambda path: recording.export(path, format="csv"),
            ):
                with pytest.raises(PermissionError, match=f"is a named pipe owned by user {OTHER}"):
                    write(path)
        if reader is not None:
            with pytest.raises(BlockingIOError):
                os.read(reader, 1)
            os.close(reader)


def test_a_file_that_is_replaced_before_its_end_is_an_error(tmp_path):
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    # All users can rename all files in it.
    folder.chmod(0o777)
    path = folder / "file"
    path.write_text("old")
    other.write_text("untouched")
    with pytest.raises(PermissionError, match="another user replaced it"), _files.replacing(path) as file:  # noqa: PT012
        file.write(b"new")
        [part] = folder.glob(".vramscope-*.part")
        part.rename(tmp_path / "moved")
        part.symlink_to(other)
    assert (path.read_text(), other.read_text()) == ("old", "untouched")
    _files.write_text(path, "new")
    assert path.read_text() == "new"


def test_errors_are_those_of_python(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        _files.write_text(tmp_path / "none" / "file", "")
    with pytest.raises(IsADirectoryError):
        _files.write_text(tmp_path, "")
    with pytest.raises(OSError, match="No space left on device"):
        _files.write_text("/dev/full", "text")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give a link away")
def test_links_of_other_users_are_not_followed(tmp_path):
    own, link = tmp_path / "own", tmp_path / "link"
    own.write_text("mine")
    link.symlink_to(own)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(PermissionError, match="links of other users are not followed"):
        _files.write_text(link, "new")
    assert own.read_text() == "mine"


def test_a_recording_is_not_replaced_by_what_is_made_of_it(tmp_path):
    path, other = tmp_path / "run.pickle", tmp_path / "run.html"
    path.write_bytes((EXAMPLES / "oom.pickle").read_bytes())
    other.hardlink_to(path)
    recording = read(path)
    before = path.read_bytes()
    for write in (lambda: recording.view(html=other), lambda: recording.export(path, format="csv")):
        with pytest.raises((ValueError, VramscopeError), match="is the file that was read"):
            write()
        assert path.read_bytes() == before


MANIFEST = '{"version": 1, "time_us": 1, "reason": "test", "skipped_failures": 0, "files": [], "left_out": {}}'


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give a folder away")
def test_bundles_of_other_users_are_neither_counted_nor_removed(tmp_path):
    for number in range(3):
        folder = tmp_path / f"oom_dump_20260101T000000Z_1_{number}"
        folder.mkdir()
        (folder / "manifest.json").write_text(MANIFEST)
        os.chown(folder, OTHER, OTHER)
        os.utime(folder, (0, 0))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "manifest.json").write_text(MANIFEST)
    (tmp_path / "oom_dump_link").symlink_to(outside)
    recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir=str(tmp_path), max_dumps=1))
    for _ in range(2):
        assert recorder.dump(reason="test", exception=None, context=None, backend="cuda")
    assert len(list(tmp_path.glob("oom_dump_2*"))) == 4
    assert (tmp_path / "oom_dump_link").is_symlink()
