"""Writes a bundle after an out of memory: a folder with the last events, the error and the environment."""

from __future__ import annotations

import pickle
import platform
import sys
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vramscope import _arguments, _native
from vramscope.profiler._monitor import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
        # 0 or less turns a limit off.
        limits = (config.max_dumps, config.max_total_mb * 1024 * 1024)
        bundles, total_bytes = (min(limit, sys.maxsize) if limit > 0 else sys.maxsize for limit in limits)
        self._folder = _native.BundleFolder(config.dump_dir, bundles, total_bytes)

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
        and, if PyTorch records its history, `snapshot.pickle` and its report, `report.txt`. Files without room are left
        out, and `manifest.json` names them. Returns `None` if the recorder is disabled. Raises `OSError` if the bundle
        cannot be written.
        """
        if not self.config.enabled:
            return None
        path, removal_error = self._folder.write(
            reason=reason,
            exception=exception,
            context=context,
            backend=backend,
            metadata=dict(metadata or {}),
            events=self.snapshot_events(),
            program=_program(),
            snapshot=_history(),
        )
        if removal_error is not None:
            logger.warning("could not remove an older bundle: %s", removal_error)
        return str(path)


def _program() -> dict[str, Any]:
    """Returns the facts about the program that only Python knows."""
    versions = {
        name: str(getattr(sys.modules[name], "__version__", ""))
        for name in ("torch", "cupy", "transformers", "lightning")
        if name in sys.modules
    }
    return {
        "command": list(map(str, sys.argv)),
        "platform": platform.platform(),
        "versions": {"python": platform.python_version(), **versions},
    }


def _history() -> bytes | None:
    """Returns PyTorch's recorded history as a pickle, if there is one."""
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized() or not torch._C._cuda_isHistoryEnabled():
            return None
        return pickle.dumps(torch.cuda.memory._snapshot())
    except Exception as error:
        logger.warning("PyTorch's history is not in the bundle: %s", error)
        return None


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
