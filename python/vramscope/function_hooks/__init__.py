"""Memory by function: Chainer's hook of that name, also for PyTorch's modules and for plain functions."""

from vramscope.function_hooks._hook import CupyMemoryProfileHook

__all__ = ["CupyMemoryProfileHook"]
