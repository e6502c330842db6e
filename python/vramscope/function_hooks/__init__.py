"""Memory by function: Chainer's hook of this name, extended to PyTorch modules and plain functions."""

from vramscope.function_hooks._hook import CupyMemoryProfileHook

__all__ = ["CupyMemoryProfileHook"]
