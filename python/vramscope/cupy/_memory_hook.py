"""The base class of hooks on CuPy's memory pool."""

from typing import Any, TypeVar

Hook = TypeVar("Hook", bound="MemoryHook")


def _registry() -> "dict[str, Any]":
    """Returns CuPy's dictionary of this thread's hooks, by name, in the order in which they are called."""
    from cupy.cuda.memory_hook import get_memory_hooks

    hooks: dict[str, Any] = get_memory_hooks()
    return hooks


class MemoryHook:
    """The base class of hooks that CuPy's pools call around every request: `cupy.cuda.MemoryHook`.

    A subclass overrides any of the six callbacks; the base class's do nothing. `with hook:` registers it in CuPy for
    the thread that runs the block. CuPy needs only a hook's name and the six callbacks, which it calls with keyword
    arguments.

    Sizes are in bytes; `mem_size` is rounded up to a multiple of 512. Several hooks are called in the order of their
    registration. An exception in a `preprocess` callback refuses the request; one in a `postprocess` callback replaces
    the result. If a destructor frees memory, CuPy reports the exception on stderr and continues.
    """

    name = "MemoryHook"
    """The key in CuPy's registry; a thread can register one hook per name."""

    def __enter__(self: Hook) -> Hook:
        """Registers the hook in CuPy for this thread.

        Raises `KeyError` if a hook of this name is registered, and `ImportError` if CuPy is not installed.
        """
        hooks = _registry()
        if self.name in hooks:
            raise KeyError(f"memory hook {self.name} already exists")
        hooks[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the hook of this name from CuPy's registry. Raises `KeyError` if this thread has none."""
        del _registry()[self.name]

    def alloc_preprocess(self, **kwargs: Any) -> None:
        """Called before each attempt to allocate from the device: `device_id`, `mem_size`."""

    def alloc_postprocess(self, **kwargs: Any) -> None:
        """Called after an allocation from the device: `device_id`, `mem_size`, `mem_ptr` (0 if it failed)."""

    def malloc_preprocess(self, **kwargs: Any) -> None:
        """Called before a request to the pool: `device_id`, `size` (requested bytes), `mem_size`."""

    def malloc_postprocess(self, **kwargs: Any) -> None:
        """Called after a request to the pool: `device_id`, `size`, `mem_size`, `mem_ptr`, `pmem_id`.

        `mem_ptr` and `pmem_id` are 0 if the request failed.
        """

    def free_preprocess(self, **kwargs: Any) -> None:
        """Called before a free to the pool: `device_id`, `mem_size`, `mem_ptr`, `pmem_id`."""

    def free_postprocess(self, **kwargs: Any) -> None:
        """Called after a free to the pool: `device_id`, `mem_size`, `mem_ptr`, `pmem_id`."""
