"""Allocate from a private pool and from the default pool."""

import torch

import measure


def mempool(iterations):
    pool = torch.cuda.MemPool()
    for _ in range(iterations):
        with torch.cuda.use_mem_pool(pool):
            private = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
        common = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
        small = torch.empty(4000, dtype=torch.uint8, device="cuda")
        del private
    # Without a reference, the pool would free its memory.
    return pool


if __name__ == "__main__":
    measure.main(mempool, iterations=3)
