"""Decorators and context managers that use a global profiler."""

from __future__ import annotations

import functools
import inspect
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from vramscope import _arguments
from vramscope.profiler._profiler import GPUMemoryProfiler, ProfileContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vramscope.profiler._result import ProfileResult

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_global_profiler: GPUMemoryProfiler | None = None
_of_devices: dict[str, GPUMemoryProfiler] = {}


def get_global_profiler(device: Any = None) -> GPUMemoryProfiler:
    """Returns the program's global profiler, and creates it if necessary.

    With a `device`, returns that device's profiler: the one set or created for it, or else a new one.
    Raises like `GPUMemoryProfiler`.
    """
    global _global_profiler
    with _lock:
        if device is None:
            if _global_profiler is None:
                _global_profiler = GPUMemoryProfiler()
            return _global_profiler
        if _global_profiler is None:
            _global_profiler = GPUMemoryProfiler(device=device)
            return _global_profiler
        from vramscope.profiler._sources import resolve_device

        name = str(resolve_device(device))
        if str(_global_profiler.device) == name:
            return _global_profiler
        if name not in _of_devices:
            _of_devices[name] = GPUMemoryProfiler(device=name)
        return _of_devices[name]


def set_global_profiler(profiler: GPUMemoryProfiler) -> GPUMemoryProfiler | None:
    """Sets the program's global profiler and returns the previous one."""
    global _global_profiler
    with _lock:
        before, _global_profiler = _global_profiler, profiler
    return before


def clear_global_profiler() -> GPUMemoryProfiler | None:
    """Removes the program's global profiler and returns it; also removes those of other devices."""
    global _global_profiler
    with _lock:
        before, _global_profiler = _global_profiler, None
        _of_devices.clear()
    return before


@overload
def profile_function(func: Callable[P, R]) -> Callable[P, R]: ...
@overload
def profile_function(
    func: None = None, *, name: str | None = None, device: Any = None, profiler: GPUMemoryProfiler | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def profile_function(
    func: Callable[P, R] | None = None,
    *,
    name: str | None = None,
    device: Any = None,
    profiler: GPUMemoryProfiler | None = None,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Profiles every call of a function. The function's signature, type, result and exceptions stay the same.

    Use `@profile_function` or `@profile_function(name="custom")`. Each call uses `profiler`, or the global profiler of
    `device`, looked up at the call. An `async` function is measured until it completes, a generator until it is
    exhausted.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _arguments.function("func", function)
        called = str(getattr(function, "__name__", "unknown_function") if name is None else name)

        def of_call() -> GPUMemoryProfiler:
            return get_global_profiler(device) if profiler is None else profiler

        wrapper = functools.wraps(function)(_wrapper_of(function, called, of_call))
        vars(wrapper).update(_is_profiled=True, _profile_name=called)
        return cast("Callable[P, R]", wrapper)

    return decorate if func is None else decorate(func)


def _wrapper_of(function: Callable[..., Any], name: str, profiler: Callable[[], GPUMemoryProfiler]) -> Any:
    """Returns a wrapper of the same kind as `function` that profiles its calls."""
    if inspect.iscoroutinefunction(function):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with profiler().profile_context(name):
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isgeneratorfunction(function):

        def generator(*args: Any, **kwargs: Any) -> Any:
            with ProfileContext(profiler(), name, nests=False):
                return (yield from function(*args, **kwargs))

        return generator

    def call(*args: Any, **kwargs: Any) -> Any:
        returned: list[Any] = []

        def run() -> Any:
            returned.append(function(*args, **kwargs))
            return returned[0]

        run.__name__ = name
        profiler().profile_function(run)
        return returned.pop()

    return call


@contextmanager
def profile_context(
    name: str = "context", device: Any = None, profiler: GPUMemoryProfiler | None = None
) -> Iterator[GPUMemoryProfiler]:
    """Profiles a block with `profiler`, or with the global profiler of `device`; yields the profiler."""
    used = get_global_profiler(device) if profiler is None else profiler
    with used.profile_context(name):
        yield used


def start_monitoring(interval: float = 0.1, device: Any = None) -> None:
    """Starts monitoring with the global profiler."""
    get_global_profiler(device).start_monitoring(interval)


def stop_monitoring() -> None:
    """Stops monitoring with all global profilers."""
    with _lock:
        profilers = [*_of_devices.values(), *([] if _global_profiler is None else [_global_profiler])]
    for profiler in profilers:
        profiler.stop_monitoring()


def get_summary() -> dict[str, Any]:
    """Returns the global profiler's summary, or `{"message": ...}` if there is no profiler."""
    if _global_profiler is None:
        return {"message": "No global profiler instance"}
    return _global_profiler.get_summary()


def clear_results() -> None:
    """Clears the global profiler's results."""
    if _global_profiler is not None:
        _global_profiler.clear_results()


def get_profile_results(limit: int | None = None) -> list[ProfileResult]:
    """Returns the global profiler's results, only the newest `limit` if given."""
    if _global_profiler is None:
        return []
    results = list(_global_profiler.results)
    return results[-limit:] if limit else results


def profile_model_training(
    model: Any, train_loader: Iterable[Any], epochs: int = 1, device: Any = None, *, step: Callable[[Any, Any], object]
) -> dict[str, Any]:
    """Trains `model` with `step(model, batch)` per batch, and measures each epoch and each batch.

    Returns `total_epochs`, `batch_results`, `epoch_summaries`, and the profiler's summary as `overall_summary`.
    """
    profiler = get_global_profiler(device)
    batches: list[dict[str, Any]] = []
    epochs_done: list[dict[str, Any]] = []
    with profiler.profile_context("training_setup"):
        model.train()
    for epoch in range(epochs):
        results: list[ProfileResult] = []
        with profiler.profile_context("epoch"):
            for batch in train_loader:
                with profiler.profile_context("batch") as block:
                    step(model, batch)
                if block.result is not None:
                    results.append(block.result)
        batches.extend(result.to_dict() for result in results)
        epochs_done.append(
            {
                "epoch": epoch,
                "batches_profiled": len(results),
                "total_memory_allocated": sum(result.memory_allocated for result in results),
                "average_batch_time": sum(result.execution_time for result in results) / max(len(results), 1),
            }
        )
    return {
        "total_epochs": epochs,
        "batch_results": batches,
        "epoch_summaries": epochs_done,
        "overall_summary": profiler.get_summary(),
    }
