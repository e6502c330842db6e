"""Runs a PyTorch program without the values of its parameters: python bench/accuracy/without_values.py PROGRAM [ARGUMENT...]

On a phantom GPU values do not matter. But a program that creates its parameters on the CPU and moves them needs the model's size in host
memory, often twice. Here large tensors on the CPU stay uninitialized, so they use no memory. `Module.to` creates an empty tensor on the GPU
for each of them, in the order of the original copies, so PyTorch's allocator gets the same requests. "Large" is
1,048,576 elements and more; smaller tensors keep their values.
"""

import functools
import runpy
import sys
from pathlib import Path

import torch

LARGE = 1 << 20


def is_large(tensor):
    """Whether a tensor is on the CPU and large."""
    return tensor.is_cpu and tensor.numel() >= LARGE


def keeps_out(fill):
    """An initializer of `torch.nn.init` that does not fill large tensors on the CPU."""

    @functools.wraps(fill)
    def init(tensor, *arguments, **options):
        return tensor if is_large(tensor) else fill(tensor, *arguments, **options)

    return init


def zeros(*size, zeros=torch.zeros, **options):
    """`torch.zeros` that leaves large tensors on the CPU uninitialized."""
    tensor = torch.empty(*size, **options)
    return tensor if is_large(tensor) else tensor.zero_()


def moves_no_values(self, *arguments, to=torch.nn.Module.to, **options):
    """`Module.to` that creates empty tensors for large tensors on the CPU."""
    device, dtype, non_blocking, _ = torch._C._nn._parse_to(*arguments, **options)
    if device is None or device.type == "cpu":
        return to(self, *arguments, **options)

    def moved(tensor):
        kind = dtype if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()) else tensor.dtype
        if is_large(tensor):
            return torch.empty_like(tensor, device=device, dtype=kind)
        return tensor.to(device, kind, non_blocking)

    return self._apply(moved)


def main():
    """Runs the program that the command line names."""
    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(torch.nn.init, name, keeps_out(getattr(torch.nn.init, name)))
    torch.zeros = zeros
    torch.nn.Module.to = moves_no_values
    program, sys.argv = Path(sys.argv[1]), sys.argv[1:]
    sys.path[0] = str(program.resolve().parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
