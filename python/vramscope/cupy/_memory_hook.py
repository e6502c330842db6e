"""The base of hooks on CuPy's memory pool."""

from types import TracebackType
from typing import Any, TypeVar

Hook = TypeVar("Hook", bound="MemoryHook")


def _registry() -> "dict[str, Any]":
    """Gives the hooks of this thread, by name, in the order in which they are called: CuPy's own dictionary."""
    from cupy.cuda.memory_hook import get_memory_hooks

    hooks: dict[str, Any] = get_memory_hooks()
    return hooks


class MemoryHook:
    """What CuPy's pools call around every request: `cupy.cuda.MemoryHook`.

    A subclass overrides those of the six callbacks that it needs; the others do nothing. `with hook:` registers it in
    CuPy, for the thread that runs the block. CuPy asks no more of a hook than a name and the six callbacks, which it
    calls with keywords.

    Sizes are in bytes; `mem_size` is rounded up to a multiple of 512. Callbacks of several hooks are called in the
    order of their registration. An exception in a `preprocess` callback refuses the request; one in a `postprocess`
    callback takes the place of the result. CuPy reports exceptions while memory is freed by a destructor on stderr, and
    goes on.
    """

    name = "MemoryHook"
    """A thread has one hook of a name at a time."""

    def __enter__(self: Hook) -> Hook:
        """Registers the hook in CuPy for this thread.

        Raises `KeyError` where a hook of the same name is registered, and `ImportError` where there is no CuPy.
        """
        hooks = _registry()
        if self.name in hooks:
            raise KeyError(f"memory hook {self.name} already exists")
        hooks[self.name] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Takes the hook of this name out of CuPy's registry. Raises `KeyError` on a thread that has none."""
        del _registry()[self.name]

    def alloc_preprocess(self, **kwargs: Any) -> None:
        """Called before memory is taken from the device, for each attempt: `device_id`, `mem_size`."""

    def alloc_postprocess(self, **kwargs: Any) -> None:
        """Called after memory was taken from the device: `device_id`, `mem_size`, `mem_ptr` (0 where it failed)."""

    def malloc_preprocess(self, **kwargs: Any) -> None:
        """Called before a request to the pool: `device_id`, `size` (as it was asked for), `mem_size`."""

    def malloc_postprocess(self, **kwargs: Any) -> None:
        """Called after a request to the pool: `device_id`, `size`, `mem_size`, `mem_ptr`, `pmem_id`.

        The last two are 0 where it failed.
        """

    def free_preprocess(self, **kwargs: Any) -> None:
        """Called before memory goes back to the pool: `device_id`, `mem_size`, `mem_ptr`, `pmem_id`."""

    def free_postprocess(self, **kwargs: Any) -> None:
        """Called after memory went back to the pool: `device_id`, `mem_size`, `mem_ptr`, `pmem_id`."""
