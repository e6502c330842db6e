"""Prints the median milliseconds of a training step of GPT-2. Arguments: the folder of gpt2.py, and a way to record:
`none`, `python` or `all` (PyTorch's history with these stacks)."""

import statistics
import sys
import time

sys.path.insert(0, sys.argv[1])

import gpt2
import torch

if sys.argv[2] != "none":
    torch.cuda.memory._record_memory_history(stacks=sys.argv[2])
model = gpt2.Gpt2().cuda()
optimizer = torch.optim.AdamW(model.parameters())
times = []
for step in range(25):
    start = time.perf_counter()
    ids = torch.randint(gpt2.VOCABULARY, (gpt2.BATCH, 256), device="cuda")
    model(ids)[0].backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
print(1000 * statistics.median(times[5:]))
