"""Allocate weights of the given MiB, and then pages in nine tenths of the free memory, as model servers do."""

import sys

import torch

PAGE = 4 << 20

weights = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
free, _ = torch.cuda.mem_get_info()
pages = [torch.empty(PAGE, dtype=torch.uint8, device="cuda") for _ in range(int(free * 0.9) // PAGE)]
if not pages:
    raise torch.OutOfMemoryError("no room for a page")
