"""A Triton kernel. It must be in a file, because Triton reads its source."""

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    pass
else:

    @triton.jit
    def double_kernel(x, y, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 2 * tl.load(x + at, mask=at < count), mask=at < count)


def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
