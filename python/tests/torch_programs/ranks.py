"""One of several ranks: `ranks.py ddp|fsdp COUNTERS [oom]`. Writes PyTorch's counters.

With `oom`, rank 1 runs out of memory.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

how, counters, *more = sys.argv[1:]
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
if how == "ddp":
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
else:
    from torch.distributed.fsdp import fully_shard

    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
stats = torch.cuda.memory_stats()
with open(f"{counters}-{rank}.txt", "w") as file:
    print(stats["allocated_bytes.all.peak"], stats["allocation.all.allocated"], file=file)
if more == ["oom"] and rank == 1:
    kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(100)]
dist.destroy_process_group()
