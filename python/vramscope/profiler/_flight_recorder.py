"""Writes a bundle after an out of memory: a folder with the last events, the error and the environment."""

from __future__ import annotations

import json
import os
import pickle
import platform
import re
import shutil
import stat
import sys
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vramscope import _arguments, _native
from vramscope._files import NewFolder
from vramscope.profiler._monitor import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The environment variables that a bundle keeps: those of launchers, CUDA and PyTorch's allocator. Others may be
#: secret.
_VARIABLES = re.compile(
    r"(CUDA|NVIDIA|PYTORCH|TORCH|NCCL|HIP|ROCR|CUPY|SLURM|OMPI_COMM)_\w+|(LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE"
    r"|MASTER_(ADDR|PORT)|OMP_NUM_THREADS"
)


@dataclass(frozen=True)
class OOMFlightRecorderConfig:
    """A recorder's limits: it keeps the newest `buffer_size` events, and bundles in `dump_dir`. A limit of 0 is off."""

    enabled: bool = False
    dump_dir: str = "oom_dumps"
    buffer_size: int = 10_000
    max_dumps: int = 5
    max_total_mb: int = 256


@dataclass(frozen=True)
class OOMExceptionClassification:
    """Whether an exception reports an out of memory, and the reason for the decision."""

    is_oom: bool
    reason: str | None


def classify_oom_exception(exc: BaseException) -> OOMExceptionClassification:
    """Recognizes an out of memory by its type or its message, without importing anything."""
    torch = sys.modules.get("torch")
    out_of_memory = getattr(getattr(torch, "cuda", None), "OutOfMemoryError", None)
    kind = type(exc)
    named = kind.__name__.lower() == "outofmemoryerror"
    if (isinstance(out_of_memory, type) and isinstance(exc, out_of_memory)) or (
        named and "torch" in kind.__module__.lower()
    ):
        return OOMExceptionClassification(True, "torch.cuda.OutOfMemoryError")
    if named and "cupy" in kind.__module__.lower():
        return OOMExceptionClassification(True, "cupy.cuda.memory.OutOfMemoryError")
    if kind.__name__.lower().endswith("resourceexhaustederror"):
        return OOMExceptionClassification(True, "tensorflow.ResourceExhaustedError")
    words = _native.out_of_memory_words(str(exc))
    if words is None:
        return OOMExceptionClassification(False, None)
    return OOMExceptionClassification(True, f"message_pattern:{words}")


class OOMFlightRecorder:
    """Keeps the last events and writes a bundle after an out of memory. Thread-safe."""

    def __init__(self, config: OOMFlightRecorderConfig) -> None:
        self.config = config
        kept = _arguments.at_least("buffer_size", config.buffer_size, -sys.maxsize)
        self._events: deque[dict[str, Any]] = deque(maxlen=max(1, kept))
        self._lock = threading.Lock()
        self._number = 0

    def record_event(self, event: Mapping[str, Any]) -> None:
        """Adds an event; if the buffer is full, drops the oldest."""
        with self._lock:
            self._events.append(dict(event))

    def snapshot_events(self) -> list[dict[str, Any]]:
        """Returns the kept events, oldest first."""
        with self._lock:
            return [dict(event) for event in self._events]

    def dump(
        self,
        *,
        reason: str,
        exception: BaseException | None,
        context: str | None,
        backend: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Writes a bundle and removes old bundles above the limits.

        Returns the bundle's folder. It contains `events.json`, `metadata.json`, `environment.json`, `manifest.json`,
        and,
        if PyTorch records its history, `snapshot.pickle`, which `vramscope report` reads. Returns `None` if the
        recorder is
        disabled. Raises `OSError` if the bundle cannot be written.
        """
        if not self.config.enabled:
            return None
        root = Path(self.config.dump_dir)
        root.mkdir(parents=True, exist_ok=True)
        events = self.snapshot_events()
        contents = {
            "events.json": events,
            "metadata.json": {
                "reason": reason,
                "exception_type": None if exception is None else type(exception).__name__,
                "exception_module": None if exception is None else type(exception).__module__,
                "exception_message": None if exception is None else str(exception),
                "context": context,
                "backend": backend,
                "captured_event_count": len(events),
                "custom_metadata": dict(metadata or {}),
            },
            "environment.json": _environment(),
        }
        name, folder = self._new_folder(root, backend)
        with folder:
            for file, value in contents.items():
                _write(folder, file, value)
            files = ["manifest.json", *contents]
            if _write_history(folder, "snapshot.pickle"):
                files.append("snapshot.pickle")
            manifest = {
                "schema_version": 1,
                "bundle_name": name,
                "created_at_utc": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "reason": reason,
                "backend": backend,
                "event_count": len(events),
                "files": files,
            }
            _write(folder, "manifest.json", manifest)
        bundle = root / name
        self._make_room(root)
        return str(bundle) if bundle.exists() else None

    def _new_folder(self, root: Path, backend: str) -> tuple[str, NewFolder]:
        time = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        safe = re.sub(r"[^a-zA-Z0-9_-]+", "_", backend) or "unknown"
        while True:
            with self._lock:
                self._number += 1
                number = self._number
            name = f"oom_dump_{time}_{os.getpid()}_{safe}_{number}"
            try:
                return name, NewFolder(root, name)
            except FileExistsError:
                continue

    def _make_room(self, root: Path) -> None:
        """Removes the oldest bundles above the limits; several processes may do so at once."""
        bundles: list[tuple[int, str, Path, int]] = []
        for path in root.glob("oom_dump_*"):
            try:
                # Never count or remove links and other users' bundles.
                about = path.lstat()
                if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                    continue
                size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                bundles.append((path.stat().st_mtime_ns, path.name, path, size))
            except OSError:
                continue
        bundles.sort(key=_by_age)
        total, most = sum(bundle[3] for bundle in bundles), self.config.max_total_mb * 1024 * 1024
        while bundles and (0 < self.config.max_dumps < len(bundles) or (self.config.max_total_mb > 0 and total > most)):
            _, _, path, size = bundles.pop(0)
            total -= size
            shutil.rmtree(path, ignore_errors=True)


def _by_age(bundle: tuple[int, str, Path, int]) -> tuple[int, int]:
    """The sort key: a bundle's time, then its number among bundles of the same time."""
    number = bundle[1].rpartition("_")[2]
    return bundle[0], int(number) if number.isdigit() else 0


def _write(folder: NewFolder, name: str, value: object) -> None:
    with folder.create(name) as file:
        file.write(json.dumps(value, indent=2, default=str).encode())


def _environment() -> dict[str, Any]:
    versions = {
        name: str(getattr(sys.modules[name], "__version__", ""))
        for name in ("torch", "cupy", "transformers", "lightning", "vramscope")
        if name in sys.modules
    }
    return {
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "command": sys.argv,
        "system": {"platform": platform.platform(), "python_version": platform.python_version(), **versions},
        "variables": {name: value for name, value in sorted(os.environ.items()) if _VARIABLES.fullmatch(name)},
    }


def _write_history(folder: NewFolder, name: str) -> bool:
    """Writes PyTorch's recorded history, if there is one."""
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized() or not torch._C._cuda_isHistoryEnabled():
            return False
        snapshot = torch.cuda.memory._snapshot()
    except Exception as error:
        logger.warning("PyTorch's history is not in the bundle: %s", error)
        return False
    try:
        with folder.create(name) as file:
            pickle.dump(snapshot, file)
    except OSError as error:
        logger.warning("PyTorch's history is not in the bundle: %s", error)
        folder.remove(name)
        return False
    return True


@contextmanager
def capture_oom(
    context: str = "runtime",
    metadata: Mapping[str, Any] | None = None,
    *,
    recorder: OOMFlightRecorder | None = None,
    backend: str = "cuda",
) -> Iterator[OOMFlightRecorder]:
    """Writes a bundle if the block runs out of memory; the exception propagates unchanged.

    Without a `recorder`, the bundle is written to `oom_dumps`.
    """
    used = recorder or OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True))
    try:
        yield used
    except Exception as error:
        found = classify_oom_exception(error)
        if found.is_oom and found.reason is not None:
            try:
                path = used.dump(
                    reason=found.reason, exception=error, context=context, backend=backend, metadata=metadata
                )
                logger.error("out of memory in %s: see %s", context, path)
            except Exception as own:
                logger.warning("could not write the bundle of an out of memory: %s", own)
        raise
