"""The base class of hooks on memory pools."""

import sys
from typing import Any, TypeVar

try:
    from vramscope._native import TorchPool
except ImportError:
    # vramscope's pool works on Linux only.
    TorchPool = None  # type: ignore[assignment, misc]

Hook = TypeVar("Hook", bound="MemoryHook")


def cupys_registry() -> "dict[str, Any]":
    """Returns CuPy's dictionary of this thread's hooks, by name, in the order in which they are called."""
    from cupy.cuda.memory_hook import get_memory_hooks

    hooks: dict[str, Any] = get_memory_hooks()
    return hooks


class MemoryHook:
    """The base class of hooks that pools call around every request: `cupy.cuda.MemoryHook`.

    A subclass overrides any of the six callbacks; the base class's do nothing. `with hook:` registers it in CuPy for
    the thread that runs the block. If the process has vramscope's pool (`vramscope.torch.use_pool`), it is also
    registered in that pool, for all threads, because a backward pass of PyTorch has its own. CuPy is then needed only
    if the program has imported it. Both call the six callbacks with keyword arguments.

    Sizes are in bytes; `mem_size` is rounded up to a multiple of 512. Several hooks are called in the order of their
    registration. An exception in a `preprocess` callback refuses the request; one in a `postprocess` callback replaces
    the result: CuPy raises it, and PyTorch raises `RuntimeError` with its text. If a destructor frees memory, the
    exception is reported on stderr and the program continues. Allocations within a callback call no hook of
    vramscope's pool.
    """

    name = "MemoryHook"
    """The key in CuPy's registry; a thread can register one hook per name."""

    def __enter__(self: Hook) -> Hook:
        """Registers the hook in CuPy for this thread, and in vramscope's pool.

        Raises `KeyError` if a hook of this name is registered, and `ImportError` if the process has no pool of
        vramscope and CuPy is not installed.
        """
        is_in_pool = TorchPool is not None and TorchPool.add_hook(self)
        if is_in_pool and "cupy" not in sys.modules:
            return self
        try:
            hooks = cupys_registry()
            if self.name in hooks:
                raise KeyError(f"memory hook {self.name} already exists")
            hooks[self.name] = self
        except BaseException:
            if is_in_pool:
                TorchPool.remove_hook(self.name)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the hook of this name. Raises `KeyError` if there is none."""
        if TorchPool is not None and TorchPool.remove_hook(self.name):
            if "cupy" in sys.modules:
                cupys_registry().pop(self.name, None)
        else:
            del cupys_registry()[self.name]

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
